"""Tools for assistants over the Model Context Protocol: questions by task, answered by the calls of the API with the key's own rights."""
