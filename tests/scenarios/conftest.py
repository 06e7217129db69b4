def pytest_addoption(parser):
    parser.addoption("--rewrite", action="store_true", help="record what happens now in the stories")
