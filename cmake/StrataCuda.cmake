# The CUDA compiler, where CUDA code is built: STRATA_WITH_CUDA says whether it is.
#
# The runtime is linked statically and the driver not at all, so that the program starts on machines that have none.

set(STRATA_CUDA_TOOLKIT_MIN 13.0)
set(STRATA_WITH_CUDA OFF)
if(NOT STRATA_CUDA STREQUAL "OFF")
  find_program(STRATA_NVCC nvcc PATHS /usr/local/cuda/bin)
  set(STRATA_NVCC_VERSION none)
  if(STRATA_NVCC)
    execute_process(COMMAND ${STRATA_NVCC} --version OUTPUT_VARIABLE nvcc_says)
    if(nvcc_says MATCHES "release ([0-9.]+)")
      set(STRATA_NVCC_VERSION ${CMAKE_MATCH_1})
    endif()
  endif()
  if(STRATA_NVCC AND STRATA_NVCC_VERSION VERSION_GREATER_EQUAL STRATA_CUDA_TOOLKIT_MIN)
    set(STRATA_WITH_CUDA ON)
  elseif(STRATA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "STRATA_CUDA is ON, which takes nvcc ${STRATA_CUDA_TOOLKIT_MIN} or newer; found: "
      "${STRATA_NVCC_VERSION}. Install the CUDA toolkit, give its place with -DSTRATA_NVCC=/path/to/nvcc, or set "
      "STRATA_CUDA to OFF.")
  else()
    message(STATUS "No CUDA: nvcc ${STRATA_CUDA_TOOLKIT_MIN} or newer was not found (found: ${STRATA_NVCC_VERSION})")
  endif()
endif()

if(STRATA_WITH_CUDA)
  set(CMAKE_CUDA_COMPILER ${STRATA_NVCC})
  set(CMAKE_CUDA_ARCHITECTURES ${STRATA_CUDA_ARCHS})
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
  if(STRATA_CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${STRATA_CCACHE})
  endif()
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc has C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  find_package(CUDAToolkit ${STRATA_CUDA_TOOLKIT_MIN} REQUIRED)

  add_library(strata_cuda_flags INTERFACE)
  target_compile_options(strata_cuda_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings -Xcompiler=-Wall,-Wextra,-Wshadow,-Werror>"
    # Kernels of many formats are much alike: packed they take less than half.
    $<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
  target_include_directories(strata_cuda_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(strata_cuda_flags INTERFACE CUDA::cudart_static)
endif()

# strata_cuda_library(NAME SOURCES...): kernels, compiled by nvcc. What links it gets no flags of ours for C++.
function(strata_cuda_library name)
  cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC strata_cuda_flags)
endfunction()
