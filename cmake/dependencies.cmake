# SPDX-License-Identifier: Apache-2.0
# Every third-party library, found once. Reasons are in docs/dependencies.md.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS context)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(SQLite3 3.40 REQUIRED)
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto SSL)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)

# A plain library and its headers. Debian ships no CMake package for CAF, and
# those of oneDNN and prometheus-cpp ask for OpenCL, curl and zlib, which the
# parts we link don't use.
function(troupe_import target library header)
  string(MAKE_C_IDENTIFIER ${target} id)
  find_library(${id}_LIBRARY ${library} REQUIRED)
  find_path(${id}_INCLUDE_DIR ${header} REQUIRED)
  add_library(${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES
    IMPORTED_LOCATION ${${id}_LIBRARY}
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${${id}_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endfunction()
# To ThreadSanitizer the threads of Debian's CAF look like races (scripts/build-instrumented-caf).
set(instrumented_caf ${PROJECT_SOURCE_DIR}/build/tools/caf-tsan)
if(TROUPE_SANITIZE STREQUAL "thread" AND EXISTS ${instrumented_caf})
  list(PREPEND CMAKE_PREFIX_PATH ${instrumented_caf})
  set(TROUPE_CAF_IS_INSTRUMENTED ON)
endif()
troupe_import(caf::core caf_core caf/actor_system.hpp)
troupe_import(DNNL::dnnl dnnl oneapi/dnnl/dnnl.hpp)
troupe_import(prometheus-cpp::core prometheus-cpp-core prometheus/registry.h)

# Headers only; Debian ships no CMake package for it.
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(xxhash INTERFACE)
target_include_directories(xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})

# The JSON of requests: Boost.JSON compiled into one translation unit of http/.
add_library(troupe_boost INTERFACE)
target_link_libraries(troupe_boost INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(troupe_boost INTERFACE
  BOOST_JSON_NO_LIB BOOST_CONTAINER_NO_LIB BOOST_ASIO_NO_DEPRECATED)
