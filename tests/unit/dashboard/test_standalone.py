import re

from flota.dashboard.standalone import ORDER, make_file
from flota.dashboard.web_server import page_files


def test_the_file_loads_nothing_and_data_cannot_end_its_element():
    text = make_file(page_files(), b'{"job": "</script><script>x"}')

    assert text.count("</script>") == 2
    assert not re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', text)
    assert "default-src 'none'" in text and "unsafe" not in text


def test_every_module_is_in_the_file_after_those_that_it_imports():
    files = page_files()
    modules = {name.removesuffix(".js"): text for name, text in files.items() if name.endswith(".js")}

    assert set(modules) == set(ORDER)
    for name, text in modules.items():
        imported = re.findall(r'from "\./(\w+)\.js"', text)
        assert all(ORDER.index(one) < ORDER.index(name) for one in imported)
    assert not re.findall(r"^(import|export) ", make_file(files, b"{}"), re.MULTILINE)
