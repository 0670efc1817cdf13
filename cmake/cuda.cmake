# SPDX-License-Identifier: Apache-2.0
# The CUDA toolkit is optional: with it, gpu/cuda is compiled for A100s and H100s,
# and as PTX for what comes later. TROUPE_HAS_CUDA says whether.
option(TROUPE_CUDA "Build the CUDA worker's kernels if the toolkit is there" ON)

set(TROUPE_HAS_CUDA OFF)
if(TROUPE_CUDA AND NOT TROUPE_SANITIZE)
  find_program(TROUPE_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(TROUPE_NVCC)
    set(CMAKE_CUDA_COMPILER ${TROUPE_NVCC} CACHE FILEPATH "")
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 90-virtual)
    if(CCACHE)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
    endif()
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc speaks C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    find_package(CUDAToolkit REQUIRED)
    set(TROUPE_HAS_CUDA ON)
  endif()
endif()

if(TROUPE_HAS_CUDA)
  message(STATUS "CUDA: nvcc ${CMAKE_CUDA_COMPILER_VERSION}, for sm_80, sm_90a and PTX")
elseif(NOT TROUPE_CUDA OR TROUPE_SANITIZE)
  message(STATUS "CUDA: switched off (TROUPE_CUDA, or a sanitizer); kernels run in the interpreter")
else()
  message(STATUS "CUDA: no nvcc found (CUDA_HOME, PATH); kernels run in the interpreter only")
endif()
