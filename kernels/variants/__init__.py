"""The variants by operator, each the entry of one .cu file."""
