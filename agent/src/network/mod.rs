//! The machine's network: what NICs there are, what they shall be, what they
//! became.

mod dhcp;
