"""The test oracle of trace exports: a real trace_processor, run from its WebAssembly build under Node."""
