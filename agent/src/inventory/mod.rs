//! What this machine is made of. Read-only: every collector takes the root it reads below, so that a test can point it at a captured tree.
