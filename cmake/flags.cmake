# Compiler flags for everything of our own, by directory scope: included by the top folder after ggml.
#
# Results are bits, not approximations: no contraction that the source does not spell out, and nothing of -ffast-math.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Headers see our C flags only; what is C++ here belongs to ggml.
add_compile_options($<$<COMPILE_LANGUAGE:C>:-ffp-contract=off> $<$<COMPILE_LANGUAGE:C>:-Wall>
                    $<$<COMPILE_LANGUAGE:C>:-Wextra>)
# Under sanitizers gcc warns of what cannot happen.
if(QSA_WERROR AND NOT QSA_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()

# gcc 12 for AArch64 has an internal error in the vectorizer, on a maximum over differences.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64" AND CMAKE_C_COMPILER_ID STREQUAL "GNU"
   AND CMAKE_C_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-fno-tree-vectorize)
endif()

if(QSA_SANITIZE STREQUAL "address")
  set(QSA_SANITIZE_FLAGS -fsanitize=address,undefined)
elseif(QSA_SANITIZE STREQUAL "thread")
  set(QSA_SANITIZE_FLAGS -fsanitize=thread)
elseif(QSA_SANITIZE)
  message(FATAL_ERROR "QSA_SANITIZE is '${QSA_SANITIZE}'; it must be empty, address or thread")
endif()
if(QSA_SANITIZE)
  list(APPEND QSA_SANITIZE_FLAGS -fno-sanitize-recover=all)
  add_compile_options(${QSA_SANITIZE_FLAGS} -fno-omit-frame-pointer)
  add_link_options(${QSA_SANITIZE_FLAGS})
endif()

if(QSA_COVERAGE)
  add_compile_options(--coverage)
  add_link_options(--coverage)
endif()

# qsa_isa_flags(TARGET FILE...): compiles each file of TARGET for the instruction set that its name names: avx2, avx512;
# avxvnni, avx512vnni and dotprod, which add byte dot products. One translation unit per instruction set; files that name
# none keep the baseline.
function(qsa_isa_flags TARGET)
  set(x86 FALSE)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(x86 TRUE)
  endif()
  foreach(file IN LISTS ARGN)
    get_filename_component(name ${file} NAME)
    set(flags "")
    if(x86 AND name MATCHES "avx512")
      set(flags -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c)
      if(name MATCHES "avx512vnni")
        list(APPEND flags -mavx512vnni)
      endif()
    elseif(x86 AND name MATCHES "avx2|avxvnni")
      set(flags -mavx2 -mfma -mf16c)
      if(name MATCHES "avxvnni")
        list(APPEND flags -mavxvnni)
      endif()
    elseif(NOT x86 AND name MATCHES "dotprod")
      set(flags -march=armv8.2-a+dotprod)
    endif()
    if(flags)
      set_property(SOURCE ${file} TARGET_DIRECTORY ${TARGET} APPEND PROPERTY COMPILE_OPTIONS ${flags})
    endif()
  endforeach()
endfunction()
