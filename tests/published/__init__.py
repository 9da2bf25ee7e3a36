"""Published MCP servers and clients, directly and with the gateway between them."""
