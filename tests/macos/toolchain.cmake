# SPDX-License-Identifier: Apache-2.0
# CMake's view of an Apple silicon Mac from Linux: the build's own APPLE
# branches run, with the tools that cross_build.py lays out.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(MPSD_MACOS_TOOLS $ENV{MPSD_MACOS_TOOLS})
set(CMAKE_CXX_COMPILER ${MPSD_MACOS_TOOLS}/c++)
set(CMAKE_AR ${MPSD_MACOS_TOOLS}/ar)
set(CMAKE_RANLIB ${MPSD_MACOS_TOOLS}/ranlib)
# Asked for and, since nothing is installed, not used.
set(CMAKE_INSTALL_NAME_TOOL true)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
