"""From a user's definition to a Graph: the recorder, conditionals, and saved graphs."""
