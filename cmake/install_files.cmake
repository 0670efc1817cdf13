# SPDX-License-Identifier: Apache-2.0
# Run at the installation: what the programs say of themselves (man pages, completion), the
# service's unit with the paths of this prefix, its configuration. Given: TROUPE_PROGRAMS,
# TROUPE_SOURCE_DIR, and TROUPE_BINDIR, where the programs go. All is made in a folder that is
# removed: an installation by root leaves nothing of root's in the build.
set(share ${CMAKE_INSTALL_PREFIX}/share)
set(etc ${CMAKE_INSTALL_PREFIX}/etc)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(etc /etc)
endif()
cmake_path(ABSOLUTE_PATH TROUPE_BINDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} NORMALIZE)
execute_process(COMMAND mktemp -d OUTPUT_VARIABLE made OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

function(say_into file program)
  execute_process(COMMAND ${program} ${ARGN} OUTPUT_FILE ${made}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(program ${TROUPE_PROGRAMS})
  cmake_path(GET program FILENAME name)
  say_into(${name}.1 ${program} man)
  execute_process(COMMAND gzip -9nf ${made}/${name}.1 COMMAND_ERROR_IS_FATAL ANY)
  say_into(${name} ${program} completion bash)
  say_into(_${name} ${program} completion zsh)
  say_into(${name}.fish ${program} completion fish)
  file(INSTALL ${made}/${name}.1.gz DESTINATION ${share}/man/man1)
  file(INSTALL ${made}/${name} DESTINATION ${share}/bash-completion/completions)
  file(INSTALL ${made}/_${name} DESTINATION ${share}/zsh/vendor-completions)
  file(INSTALL ${made}/${name}.fish DESTINATION ${share}/fish/vendor_completions.d)
endforeach()

set(TROUPE_PROGRAM ${TROUPE_BINDIR}/troupe)
set(TROUPE_CONFIGURATION ${etc}/troupe/troupe.toml)
configure_file(${TROUPE_SOURCE_DIR}/packaging/troupe.service.in ${made}/troupe.service @ONLY)
file(INSTALL ${made}/troupe.service DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/systemd/system)
if(EXISTS $ENV{DESTDIR}${TROUPE_CONFIGURATION})
  message(STATUS "Left as it is: $ENV{DESTDIR}${TROUPE_CONFIGURATION}")
else()
  file(INSTALL ${TROUPE_SOURCE_DIR}/packaging/troupe.toml DESTINATION ${etc}/troupe)
endif()
file(REMOVE_RECURSE ${made})
