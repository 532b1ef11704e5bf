# How every target of the project is compiled, and the two helpers that declare libraries and tests.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# The scripts find the program, and a person every test, in one place whatever folder declares it.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Asserts are ours and always on, so NDEBUG has no say; -O2 measures as fast as -O3 here except in kernels/.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g -DSTRATA_DEBUG=1")

find_program(STRATA_CCACHE ccache)
if(STRATA_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${STRATA_CCACHE})
endif()

find_package(Threads REQUIRED)

add_library(strata_flags INTERFACE)
target_compile_options(strata_flags INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror
  # Results must not depend on which loops the compiler contracts into fused operations.
  -ffp-contract=off)
target_include_directories(strata_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(strata_flags INTERFACE Threads::Threads)
if(STRATA_SANITIZE)
  target_compile_options(strata_flags INTERFACE -fsanitize=${STRATA_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(strata_flags INTERFACE -fsanitize=${STRATA_SANITIZE})
elseif(STRATA_STATIC)
  target_link_options(strata_flags INTERFACE -static-libstdc++ -static-libgcc)
endif()

# strata_library(NAME SOURCES... DEPS...): one floor or part of one. NOEXCEPT builds it without exceptions.
function(strata_library name)
  cmake_parse_arguments(arg "NOEXCEPT" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC strata_flags ${arg_DEPS})
  if(arg_NOEXCEPT)
    target_compile_options(${name} PRIVATE -fno-exceptions)
  endif()
endfunction()

# strata_test(NAME SOURCES... DEPS... [LABELS...] [TIMEOUT s]): one GoogleTest binary, one ctest entry.
# Exit code 77 means skipped (no device, no privilege). A test is labelled fast, which is what ./test.sh runs, unless
# LABELS says slow, which only ./test.sh --full runs.
function(strata_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPS;LABELS;ARGS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE strata_flags ${arg_DEPS} strata_test_support GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT "slow" IN_LIST arg_LABELS)
    list(PREPEND arg_LABELS fast)
  endif()
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}")
endfunction()
