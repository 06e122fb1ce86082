# What `make install` installs: the headers, libqsa static and shared, its pkg-config and CMake package files, the
# program and its manual. The adapter's folder installs its own header and source.

include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/qsa)

install(DIRECTORY include/qsa DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS qsa qsa_shared EXPORT qsa-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT qsa-targets NAMESPACE qsa:: DESTINATION ${package_folder})
configure_file(cmake/qsa-config.cmake.in qsa-config.cmake @ONLY)
write_basic_package_version_file(qsa-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/qsa-config.cmake ${PROJECT_BINARY_DIR}/qsa-config-version.cmake
        DESTINATION ${package_folder})

# Relative to the file itself, so that an installed tree can be moved and `cmake --install --prefix` holds.
file(RELATIVE_PATH QSA_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" QSA_PC_PREFIX "${QSA_PC_PREFIX}")
configure_file(cmake/qsa.pc.in qsa.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/qsa.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET qsa_program)
  install(TARGETS qsa_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(QSA_GGML_SOURCE) # inside the program, so its licence goes along
    install(FILES ${QSA_GGML_SOURCE}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME LICENSE.ggml)
  endif()
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/docs/man/qsa.1)
  install(FILES docs/man/qsa.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
