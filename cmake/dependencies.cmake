# SPDX-License-Identifier: Apache-2.0
# Every third-party library, found once. Reasons are in docs/dependencies.md.
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(dnnl REQUIRED CONFIG)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)

# Debian ships no CMake package for CAF.
find_library(CAF_CORE_LIBRARY caf_core REQUIRED)
find_path(CAF_INCLUDE_DIR caf/all.hpp REQUIRED)
add_library(caf::core UNKNOWN IMPORTED)
set_target_properties(caf::core PROPERTIES
  IMPORTED_LOCATION ${CAF_CORE_LIBRARY}
  INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR}
  INTERFACE_LINK_LIBRARIES Threads::Threads)

# The JSON of requests: Boost.JSON compiled into one translation unit of http/.
add_library(troupe_boost INTERFACE)
target_link_libraries(troupe_boost INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(troupe_boost INTERFACE
  BOOST_JSON_NO_LIB BOOST_CONTAINER_NO_LIB BOOST_ASIO_NO_DEPRECATED)
