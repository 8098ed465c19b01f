"""How the variants from n5 and s5 on are configured for a shape on a GPU, and which one to use there."""
