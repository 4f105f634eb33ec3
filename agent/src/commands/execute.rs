//! Does what a command says: the switchboard to everything below.
