"""How each protocol of models carries a conversation. A wire is a module with these functions:

- `speaks(path)`: whether a request to this path is a turn of the model;
- `last_said(body)`: the text of the user in the last message, beside results of tools; "" if there is none;
- `results(body)`: the results of tools, in order, as the JSON in the request;
- `reply(body, number, said, stream)`: the answer: a JSON object, or a list of events for a stream.
"""
