# `make package`: a .deb with all that `make install` installs, under /usr. One file for every x86-64 or AArch64 machine and
# every Debian from the release on that it is built on.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME qsa)
set(CPACK_PACKAGE_VENDOR "qsa")
set(CPACK_PACKAGE_CONTACT "the developers of qsa <qsa@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Qwen Sparse Attention: library, engine and program")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # dpkg-shlibdeps names what the program is linked with, and from which version on
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "ocl-icd-libopencl1")
include(CPack)
