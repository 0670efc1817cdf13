# SPDX-License-Identifier: Apache-2.0
add_library(troupe_options INTERFACE)
target_include_directories(troupe_options INTERFACE ${PROJECT_SOURCE_DIR})
# Not for nvcc, which knows other options.
target_compile_options(troupe_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra
  # GCC 12 sees overlaps in "literal" + std::string that are not there, and in a group of sources
  # it takes each for a header, whose types may not use an unnamed namespace; Clang sees what its library is built of.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict $<$<BOOL:${TROUPE_UNITY}>:-Wno-subobject-linkage>>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations -Wno-return-type-c-linkage
                             -Wno-missing-designated-field-initializers>>)
# Another compiler warns of other things, which are no reason to stop who only wants to build.
if(TROUPE_WARNINGS_ARE_ERRORS)
  if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\.")
     OR (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^19\\."))
    target_compile_options(troupe_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
  else()
    message(STATUS "Warnings are no errors: ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} is not what CI compiles with")
  endif()
endif()
if(TROUPE_SANITIZE STREQUAL "address")
  # CAF's headers bind null references on every spawn.
  target_compile_options(troupe_options INTERFACE -fsanitize=address,undefined
    -fno-sanitize=null -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(troupe_options INTERFACE -fsanitize=address,undefined)
  if(TROUPE_FUZZ)  # counts which branches were taken; the entry is libFuzzer's
    target_compile_options(troupe_options INTERFACE -fsanitize=fuzzer-no-link)
  endif()
elseif(TROUPE_SANITIZE STREQUAL "thread")
  target_compile_options(troupe_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)  # of fences in Asio that GCC 12 cannot follow
  target_link_options(troupe_options INTERFACE -fsanitize=thread)
endif()

# The libraries hold to more than the usual warnings, but for the kernels of CPU cores,
# whose vector code converts much, and for tests, which compare much by hand.
add_library(troupe_strict INTERFACE)
target_compile_options(troupe_strict INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wconversion -Wcast-qual -Wold-style-cast -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi>
  # In a group a neighbour's constant may have the name of a local variable.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:$<IF:$<STREQUAL:${TROUPE_UNITY},ALL>,-Wshadow=local,-Wshadow>>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-sign-conversion>)  # part of its -Wconversion, not of GCC's

# Under sanitizers compiling costs more than running: only what computes much is
# optimized at all, except where running is all there is: fuzzing.
function(troupe_sanitized_optimization name)
  if(TROUPE_SANITIZE AND NOT TROUPE_FUZZ)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
  endif()
endfunction()

# Compiles the target's sources in groups, as one file each: a quarter of the time where
# reading headers is what takes it.
function(troupe_unite name)
  get_target_property(all_sources ${name} SOURCES)
  list(FILTER all_sources INCLUDE REGEX "\\.cpp$")
  foreach(source ${all_sources})
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR "${source}" is_generated)
    if(NOT is_generated)
      cmake_path(ABSOLUTE_PATH source NORMALIZE)
      set_property(GLOBAL APPEND_STRING PROPERTY troupe_united_sources
        "${name}\t${CMAKE_CURRENT_SOURCE_DIR}\t${source}\n")
    endif()
  endforeach()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# Sorts the sources of all targets into groups, when all targets are known: one process,
# since their headers are mostly the same. A build sorts them anew when one of them or of
# their headers has changed, and configures again if other groups came out. Sources are inputs
# by the depfile alone: one that is deleted there is no error before CMake has reread its lists.
function(troupe_sort_into_groups)
  get_property(sources GLOBAL PROPERTY troupe_united_sources)
  if(NOT sources)
    return()
  endif()
  set(list ${CMAKE_BINARY_DIR}/unity_sources.txt)
  set(groups ${CMAKE_BINARY_DIR}/unity_groups.txt)
  file(CONFIGURE OUTPUT ${list} CONTENT "${sources}" @ONLY)  # written if it is another
  set(sort ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/unity_groups.py ${PROJECT_SOURCE_DIR} 10 ${list} ${groups})
  execute_process(COMMAND ${sort} COMMAND_ERROR_IS_FATAL ANY)
  file(STRINGS ${groups} lines)
  foreach(line ${lines})
    string(REGEX MATCH "^([^ ]+) ([0-9]+) (.*)$" line "${line}")
    set_source_files_properties(${CMAKE_MATCH_3} TARGET_DIRECTORY ${CMAKE_MATCH_1}
      PROPERTIES UNITY_GROUP group_${CMAKE_MATCH_2})
  endforeach()
  add_custom_command(OUTPUT ${groups} COMMAND ${sort} VERBATIM
    DEPENDS ${PROJECT_SOURCE_DIR}/cmake/unity_groups.py ${list} DEPFILE ${groups}.d
    COMMENT "Sorting sources into groups")
  # A target by itself: as a source it would wait for the libraries that a target links.
  add_custom_target(unity_groups DEPENDS ${groups})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${groups})
endfunction()
cmake_language(DEFER CALL troupe_sort_into_groups)

# A static library of one folder; SHARED: it is also linked into libraries that are
# opened at run time; HOT: tests spend their time in it.
function(troupe_library name)
  cmake_parse_arguments(ARG "SHARED;HOT" "" "LIBRARIES;SOURCES" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  if(NOT ARG_HOT)
    troupe_sanitized_optimization(${name})
  endif()
  if(TROUPE_UNITY STREQUAL "ALL")
    troupe_unite(${name})
  endif()
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ${ARG_SHARED})
  target_link_libraries(${name} PUBLIC troupe_options ${ARG_LIBRARIES} PRIVATE troupe_strict)
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

# One doctest program, each test case shown by ctest under its own sentence. In a
# release its own sources are optimized less, which saves a third of their time: what
# is tested is in the libraries. HOT: their own loops are what takes time. TOGETHER: ctest
# shows them as one test of this name, since they share what takes long to compute.
function(troupe_test name)
  cmake_parse_arguments(ARG "HOT" "TOGETHER" "LIBRARIES;SOURCES;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} troupe_options troupe_doctest_main)
  if(TROUPE_UNITY)
    troupe_unite(${name})
  endif()
  if(NOT ARG_HOT)
    target_compile_options(${name} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
    troupe_sanitized_optimization(${name})
  endif()
  target_compile_definitions(${name} PRIVATE
    TROUPE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  set(properties TIMEOUT 600 SKIP_RETURN_CODE 77)  # tests/support/doctest_main.cpp
  if(TROUPE_SANITIZE STREQUAL "thread" AND NOT TROUPE_CAF_IS_INSTRUMENTED AND ARG_LABELS MATCHES "caf_threads|end_to_end")
    list(APPEND properties DISABLED ON)
  endif()
  if(ARG_TOGETHER)
    add_test(NAME "${ARG_TOGETHER}" COMMAND ${name})
    # COST: begun first, or at the end a core would wait for it.
    set_tests_properties("${ARG_TOGETHER}" PROPERTIES ${properties} TIMEOUT 1800 COST 100 LABELS "${ARG_LABELS}")
    return()
  endif()
  if(ARG_LABELS)
    list(APPEND properties LABELS "${ARG_LABELS}")
  endif()
  doctest_discover_tests(${name} PROPERTIES ${properties})
endfunction()
