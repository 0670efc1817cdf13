# SPDX-License-Identifier: Apache-2.0
# Run at the installation: what the programs say of themselves (man pages, completion), the
# service's unit with the paths of this prefix, its configuration. Given: TROUPE_PROGRAMS,
# TROUPE_SOURCE_DIR, and TROUPE_MADE_DIR for what is made.
set(share ${CMAKE_INSTALL_PREFIX}/share)
set(etc ${CMAKE_INSTALL_PREFIX}/etc)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(etc /etc)
endif()
file(MAKE_DIRECTORY ${TROUPE_MADE_DIR})

function(say_into file program)
  execute_process(COMMAND ${program} ${ARGN} OUTPUT_FILE ${TROUPE_MADE_DIR}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(program ${TROUPE_PROGRAMS})
  cmake_path(GET program FILENAME name)
  say_into(${name}.1 ${program} man)
  execute_process(COMMAND gzip -9nf ${TROUPE_MADE_DIR}/${name}.1 COMMAND_ERROR_IS_FATAL ANY)
  say_into(${name} ${program} completion bash)
  say_into(_${name} ${program} completion zsh)
  say_into(${name}.fish ${program} completion fish)
  file(INSTALL ${TROUPE_MADE_DIR}/${name}.1.gz DESTINATION ${share}/man/man1)
  file(INSTALL ${TROUPE_MADE_DIR}/${name} DESTINATION ${share}/bash-completion/completions)
  file(INSTALL ${TROUPE_MADE_DIR}/_${name} DESTINATION ${share}/zsh/vendor-completions)
  file(INSTALL ${TROUPE_MADE_DIR}/${name}.fish DESTINATION ${share}/fish/vendor_completions.d)
endforeach()

set(TROUPE_PROGRAM ${CMAKE_INSTALL_PREFIX}/bin/troupe)
set(TROUPE_CONFIGURATION ${etc}/troupe/troupe.toml)
configure_file(${TROUPE_SOURCE_DIR}/packaging/troupe.service.in ${TROUPE_MADE_DIR}/troupe.service @ONLY)
file(INSTALL ${TROUPE_MADE_DIR}/troupe.service DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/systemd/system)
if(EXISTS $ENV{DESTDIR}${TROUPE_CONFIGURATION})
  message(STATUS "Left as it is: $ENV{DESTDIR}${TROUPE_CONFIGURATION}")
else()
  file(INSTALL ${TROUPE_SOURCE_DIR}/packaging/troupe.toml DESTINATION ${etc}/troupe)
endif()
