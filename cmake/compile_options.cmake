# SPDX-License-Identifier: Apache-2.0
add_library(troupe_options INTERFACE)
target_include_directories(troupe_options INTERFACE ${PROJECT_SOURCE_DIR})
# Not for nvcc, which knows other options.
target_compile_options(troupe_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra
  -Wno-restrict>)  # GCC 12 sees overlaps in "literal" + std::string that are not there
if(TROUPE_SANITIZE STREQUAL "address")
  # CAF's headers bind null references on every spawn.
  target_compile_options(troupe_options INTERFACE -fsanitize=address,undefined
    -fno-sanitize=null -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(troupe_options INTERFACE -fsanitize=address,undefined)
elseif(TROUPE_SANITIZE STREQUAL "thread")
  target_compile_options(troupe_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer
    -Wno-tsan)  # of fences in Asio that GCC 12 cannot follow
  target_link_options(troupe_options INTERFACE -fsanitize=thread)
endif()

# A static library of one folder; SHARED: it is also linked into libraries that are
# opened at run time.
function(troupe_library name)
  cmake_parse_arguments(ARG "SHARED" "" "LIBRARIES;SOURCES" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ${ARG_SHARED})
  target_link_libraries(${name} PUBLIC troupe_options ${ARG_LIBRARIES})
endfunction()

# A library that is opened at run time and exports one function; everything else in
# it, copies of what the program has too, is its own.
function(troupe_backend_library name)
  cmake_parse_arguments(ARG "" "NAME;FOLDER" "LIBRARIES;SOURCES" ${ARGN})
  add_library(${name} MODULE ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} troupe_options)
  target_link_options(${name} PRIVATE -Wl,-Bsymbolic -Wl,--exclude-libs,ALL)
  if(NOT TROUPE_SANITIZE)  # whose functions the program has
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
  endif()
  set_target_properties(${name} PROPERTIES
    OUTPUT_NAME ${ARG_NAME}
    LIBRARY_OUTPUT_DIRECTORY ${ARG_FOLDER})
endfunction()

# One doctest program, each test case shown by ctest under its own sentence.
function(troupe_test name)
  cmake_parse_arguments(ARG "" "" "LIBRARIES;SOURCES;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES} ${PROJECT_SOURCE_DIR}/tests/support/doctest_main.cpp)
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} troupe_options)
  target_compile_definitions(${name} PRIVATE
    TROUPE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  set(properties TIMEOUT 600 SKIP_REGULAR_EXPRESSION "SKIPPED: ")  # data that is not here
  if(ARG_LABELS)
    list(APPEND properties LABELS "${ARG_LABELS}")
  endif()
  doctest_discover_tests(${name} PROPERTIES ${properties})
endfunction()
