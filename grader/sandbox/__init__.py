"""The trusted side of the sandbox: how a submission is locked up (`bubblewrap`, `seccomp`) and talked to (`client`)."""
