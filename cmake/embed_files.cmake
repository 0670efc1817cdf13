# SPDX-License-Identifier: Apache-2.0
# Writes a C++ source that holds files as text, with their hashes as ETags:
#   cmake -DFOLDER=… -DFILES=a,b -DOUTPUT=….cpp -P cmake/embed_files.cmake
# A file must be UTF-8 and must not contain `)embedded"`, which ends a raw string.
string(REPLACE "," ";" names "${FILES}")
set(entries "")
foreach(name IN LISTS names)
  file(READ "${FOLDER}/${name}" text)
  string(FIND "${text}" ")embedded\"" end_of_string)
  if(NOT end_of_string EQUAL -1)
    message(FATAL_ERROR "${name} contains what ends a raw string here")
  endif()
  file(SHA256 "${FOLDER}/${name}" hash)
  string(SUBSTRING "${hash}" 0 24 etag)
  string(APPEND entries "    WebFile{\"${name}\", \"\\\"${etag}\\\"\", R\"embedded(${text})embedded\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Written by cmake/embed_files.cmake.
#include \"http/page/page_files.hpp\"

#include <array>

namespace troupe {
namespace {

constexpr std::array kFiles = {
${entries}};

}  // namespace

std::span<const WebFile> page_files() { return kFiles; }

}  // namespace troupe
")
