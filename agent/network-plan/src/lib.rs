//! One typed plan for a machine's network, whatever described it.
