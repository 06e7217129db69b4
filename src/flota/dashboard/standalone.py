"""The page of a finished job as one file: its styles, scripts and data are inside, and it loads nothing else. Pure.

The policy in the file allows these styles and this script alone, by their hashes. Data is JSON that is not executed.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256

ORDER = ("text", "source", "heat_map", "rank_table", "curve", "time_line", "log_view", "page")  # imports come first
IMPORT = re.compile(r'^import (\{.*?\}) from "\./(\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


def make_file(files: Mapping[str, str], data: bytes) -> str:
    """`files`: those of the page, by name; `data`: JSON."""
    style = files["page.css"]
    script = "const modules = {};\n" + "\n".join(_as_block(name, files[f"{name}.js"]) for name in ORDER)
    icon = f"data:image/svg+xml;base64,{b64encode(files['favicon.svg'].encode()).decode()}"
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; base-uri 'none'"
    )
    json = data.decode().replace("<", "\\u003c")  # nothing in it can end the element
    page = files["index.html"].replace("favicon.svg", icon)
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>'
    page = page.replace('<link rel="stylesheet" href="page.css">', head)
    page = page.replace('<script type="module" src="page.js"></script>\n', "")
    scripts = f'<script type="application/json" id="data">{json}</script>\n<script type="module">{script}</script>\n'
    return page.replace("</body>", f"{scripts}</body>")


def _as_block(name: str, text: str) -> str:
    """A module without imports and exports: what it exports goes into the object `modules`."""
    names = ", ".join(exported for _, exported in EXPORT.findall(text))
    body = EXPORT.sub(r"\1", IMPORT.sub(r"const \1 = modules.\2;", text))
    return f"{{\n{body}\nmodules.{name} = {{ {names} }};\n}}"


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
