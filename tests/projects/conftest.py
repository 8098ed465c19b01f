"""The folders beside this file are projects of their own; test_projects.py runs them."""

collect_ignore_glob = ["[0-9]*"]
