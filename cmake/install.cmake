# SPDX-License-Identifier: Apache-2.0
# `cmake --install build/release` and, for a package, `cpack --config build/release/CPackConfig.cmake`.
# Only the two programs have to be built. Where things go is decided at the installation
# (cmake/install_files.cmake): a package has another prefix than the build.
include(GNUInstallDirs)
install(TARGETS troupe troupe-loadgen RUNTIME)
install(DIRECTORY models/demo DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe/models)
install(DIRECTORY configs/gpus DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe/configs)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
if(TARGET troupe_cuda_backend)
  # As it was linked: it finds cuBLASLt where the toolkit is. Not in the package, for no package has that.
  install(PROGRAMS $<TARGET_FILE:troupe_cuda_backend> DESTINATION lib/troupe COMPONENT cuda OPTIONAL)
endif()
install(CODE "set(TROUPE_PROGRAMS \"$<TARGET_FILE:troupe>;$<TARGET_FILE:troupe-loadgen>\")
set(TROUPE_SOURCE_DIR \"${PROJECT_SOURCE_DIR}\")
set(TROUPE_BINDIR \"${CMAKE_INSTALL_BINDIR}\")")
install(SCRIPT cmake/install_files.cmake)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME troupe)
set(CPACK_PACKAGE_VENDOR troupe)
set(CPACK_PACKAGE_CONTACT "troupe's maintainers <maintainers@troupe.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "server of language models with OpenAI's API")
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};troupe;Unspecified;/")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/package)
set(CPACK_SET_DESTDIR ON)  # the service's configuration is not below the prefix
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS passwd)  # useradd; the libraries are added to it
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "systemd, bash-completion")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Serves language models over HTTP from one binary, without Python:
 tokens are streamed as they are made, conversations stay warm in memory and
 on disk, metrics and traces are built in. A small demo model comes with it.")
set(debian ${PROJECT_SOURCE_DIR}/packaging/debian)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${debian}/conffiles ${debian}/postinst ${debian}/prerm ${debian}/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
