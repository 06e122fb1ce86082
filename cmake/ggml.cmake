# The targets `ggml-base` (GGUF files, quantising, dequantising; what the engine links, built for any processor) and `ggml`
# (its graphs and kernels, for this processor; what the adapter's tests and the benchmarks link, built only for them).
#
# The pinned sources come inside a source package that pip fetches once, with its hash, into QSA_CACHE_DIR; on request the
# system's ggml is taken instead. No result of the engine depends on which.

set(QSA_GGML_VERSION 0.25.3)
set(QSA_GGML_PACKAGE llama-cpp-python==0.3.36)
set(QSA_GGML_ARCHIVE llama_cpp_python-0.3.36)
set(QSA_GGML_SHA256 832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e)

if(NOT "$ENV{QSA_CACHE_DIR}" STREQUAL "")
  set(default_cache "$ENV{QSA_CACHE_DIR}")
elseif(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(default_cache "$ENV{XDG_CACHE_HOME}/qsa")
else()
  set(default_cache "$ENV{HOME}/.cache/qsa")
endif()
set(QSA_CACHE_DIR "${default_cache}" CACHE PATH "Where the fetched ggml sources are kept")
set(QSA_GGML_FROM "" CACHE PATH "A build folder whose ggml libraries are linked instead of building them again")

# Sets OUT_PYTHON to a Python that has pip: the one in the path or, where that has none, the system's.
function(qsa_find_pip OUT_PYTHON)
  foreach(python IN ITEMS python3 /usr/bin/python3)
    execute_process(COMMAND ${python} -m pip --version RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed EQUAL 0)
      set(${OUT_PYTHON} ${python} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR " ggml ${QSA_GGML_VERSION} is not in ${QSA_CACHE_DIR} and python3 has no pip to fetch it with: "
                      "run tools/setup.sh, or configure with -DQSA_ENGINE=OFF")
endfunction()

# Leaves the archive, its hash verified, in the cache folder. A broken or partial file is never left under its name.
function(qsa_fetch_ggml ARCHIVE)
  if(EXISTS ${ARCHIVE})
    file(SHA256 ${ARCHIVE} found)
    if(found STREQUAL QSA_GGML_SHA256)
      return()
    endif()
    file(REMOVE ${ARCHIVE})
  endif()
  qsa_find_pip(python)
  message(NOTICE "Fetching ggml ${QSA_GGML_VERSION} into ${QSA_CACHE_DIR} (once, 77 MB)")
  string(RANDOM LENGTH 8 suffix)
  set(folder ${QSA_CACHE_DIR}/fetch-${suffix})
  file(WRITE ${folder}/requirements.txt "${QSA_GGML_PACKAGE} --hash=sha256:${QSA_GGML_SHA256}\n")
  execute_process(
    COMMAND ${python} -m pip download --quiet --no-deps --no-binary llama-cpp-python --require-hashes
            -r requirements.txt -d .
    WORKING_DIRECTORY ${folder}
    RESULT_VARIABLE failed
    OUTPUT_VARIABLE log
    ERROR_VARIABLE log)
  if(NOT failed EQUAL 0)
    file(REMOVE_RECURSE ${folder})
    string(STRIP "${log}" log)
    string(REGEX REPLACE ".*\n" "" last "${log}")
    message(FATAL_ERROR " ggml ${QSA_GGML_VERSION} is not in ${QSA_CACHE_DIR} and could not be fetched (${last}): "
                        "connect to the network once, or configure with -DQSA_ENGINE=OFF")
  endif()
  file(RENAME ${folder}/${QSA_GGML_ARCHIVE}.tar.gz ${ARCHIVE})
  file(REMOVE_RECURSE ${folder})
endfunction()

# Unpacks the ggml folder alone, beside the archive; the folder appears under its name only when it is complete.
function(qsa_unpack_ggml ARCHIVE SOURCE)
  if(EXISTS ${SOURCE}/CMakeLists.txt)
    return()
  endif()
  qsa_fetch_ggml(${ARCHIVE})
  string(RANDOM LENGTH 8 suffix)
  set(folder ${QSA_CACHE_DIR}/unpack-${suffix})
  file(ARCHIVE_EXTRACT INPUT ${ARCHIVE} DESTINATION ${folder}
       PATTERNS "${QSA_GGML_ARCHIVE}/vendor/llama.cpp/ggml/*" "${QSA_GGML_ARCHIVE}/vendor/llama.cpp/LICENSE")
  file(COPY ${folder}/${QSA_GGML_ARCHIVE}/vendor/llama.cpp/LICENSE
       DESTINATION ${folder}/${QSA_GGML_ARCHIVE}/vendor/llama.cpp/ggml)
  # Another build may have been faster: then its folder stays and ours goes.
  file(RENAME ${folder}/${QSA_GGML_ARCHIVE}/vendor/llama.cpp/ggml ${SOURCE} RESULT result)
  file(REMOVE_RECURSE ${folder})
  if(NOT EXISTS ${SOURCE}/CMakeLists.txt)
    message(FATAL_ERROR "ggml could not be unpacked into ${SOURCE}: ${result}")
  endif()
endfunction()

# Links the libraries that another build folder made from the same sources.
function(qsa_reuse_ggml SOURCE BUILD)
  find_package(Threads REQUIRED)
  foreach(name IN ITEMS ggml-base ggml-cpu ggml)
    if(NOT EXISTS ${BUILD}/ggml-${QSA_GGML_VERSION}/src/lib${name}.a)
      message(FATAL_ERROR "QSA_GGML_FROM: ${BUILD} has no lib${name}.a of ggml ${QSA_GGML_VERSION}")
    endif()
    add_library(${name} STATIC IMPORTED GLOBAL)
    set_target_properties(${name} PROPERTIES
      IMPORTED_LOCATION ${BUILD}/ggml-${QSA_GGML_VERSION}/src/lib${name}.a
      IMPORTED_LINK_INTERFACE_LANGUAGES CXX
      INTERFACE_INCLUDE_DIRECTORIES ${SOURCE}/include)
  endforeach()
  target_link_libraries(ggml-base INTERFACE Threads::Threads m ${CMAKE_DL_LIBS})
  target_link_libraries(ggml-cpu INTERFACE ggml-base)
  target_link_libraries(ggml INTERFACE ggml-cpu ggml-base)
endfunction()

function(qsa_build_ggml SOURCE)
  set(BUILD_SHARED_LIBS OFF)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(CMAKE_WARN_DEPRECATED OFF)
  foreach(option IN ITEMS GGML_OPENMP GGML_CCACHE GGML_ALL_WARNINGS GGML_BUILD_TESTS
                          GGML_BUILD_EXAMPLES GGML_BLAS GGML_ACCELERATE GGML_METAL)
    set(${option} OFF CACHE BOOL "Pinned by cmake/ggml.cmake" FORCE)
  endforeach()
  # Variables of this function, which ggml's folder inherits and ours do not. Its warnings are not ours to mend, and a
  # debug ggml is too slow to test with.
  set(CMAKE_C_FLAGS "${CMAKE_C_FLAGS} -w")
  set(CMAKE_CXX_FLAGS "${CMAKE_CXX_FLAGS} -w")
  set(CMAKE_BUILD_TYPE Release)
  add_subdirectory(${SOURCE} ${PROJECT_BINARY_DIR}/ggml-${QSA_GGML_VERSION} EXCLUDE_FROM_ALL SYSTEM)
endfunction()

if(QSA_SYSTEM_GGML)
  find_package(ggml REQUIRED)
  foreach(name IN ITEMS ggml ggml-base)
    if(NOT TARGET ${name})
      add_library(${name} ALIAS ggml::${name})
    endif()
  endforeach()
else()
  set(QSA_GGML_SOURCE ${QSA_CACHE_DIR}/ggml-${QSA_GGML_VERSION})
  qsa_unpack_ggml(${QSA_CACHE_DIR}/${QSA_GGML_ARCHIVE}.tar.gz ${QSA_GGML_SOURCE})
  if(QSA_GGML_FROM)
    qsa_reuse_ggml(${QSA_GGML_SOURCE} ${QSA_GGML_FROM})
  else()
    qsa_build_ggml(${QSA_GGML_SOURCE})
  endif()
endif()
