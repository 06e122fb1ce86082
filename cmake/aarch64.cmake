# Toolchain: cross-built for AArch64 on Debian, programs run under qemu-user. `tools/setup.sh ci` installs what it needs.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

# The libraries come from Debian's arm64 packages, which lie beside the machine's own: the C library among them, and with it
# the loader. The cross compiler's folder has another loader (qemu's -L), with which that C library waits for ever in
# pthread_create.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
set(ENV{PKG_CONFIG_PATH} "")
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
