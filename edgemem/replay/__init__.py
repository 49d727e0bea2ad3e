"""Recording a stream of requests and replaying a plan of it; names no runtime."""
