//! After the image is on disk: what its first boot needs to find.
