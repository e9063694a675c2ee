"""All operator declarations, one file a subject. Importing this package fills the registry."""
