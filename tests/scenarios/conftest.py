def pytest_addoption(parser):
    parser.addoption("--rewrite", action="store_true", help="record what the supervisor does now in the stories")
