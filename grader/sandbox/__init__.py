"""The trusted side of the sandbox: build its box (`bubblewrap`, `seccomp`), use it (`session`)."""
