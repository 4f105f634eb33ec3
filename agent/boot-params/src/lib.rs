//! The kernel command line as typed values: read by the agent, written by the image builder.
