/* Linked into the program on aarch64. Code made for Android reads its stack guard at 0x28 after the thread pointer; in
   a glibc program the program's own thread-local variables begin there, at 0x10. This one is the first and is never
   written to, so that the guard is the same when a function begins and ends. */
static __thread char room[256] __attribute__((aligned(16), tls_model("local-exec"), used)) = {1};

const char* bionic_shim_guard_room(void) { return room; }
