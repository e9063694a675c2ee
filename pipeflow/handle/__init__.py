"""What a Pipeline is made of: its definition, what it was compiled to, its runs, its states and its reports."""
