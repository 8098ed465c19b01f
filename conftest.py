"""For the plugin's own tests: pytest runs inside pytest."""

pytest_plugins = ["pytester"]
