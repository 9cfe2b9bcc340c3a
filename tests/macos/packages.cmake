# SPDX-License-Identifier: Apache-2.0
# What find_package finds in a build for a Mac on Linux: Debian's headers of the
# packages (the folder of links that cross_build.py makes), and for each one a
# library of symbols alone, under the name that Homebrew's has.
set(MPSD_MACOS_STUBS $ENV{MPSD_MACOS_STUBS})
set(MPSD_MACOS_INCLUDE $ENV{MPSD_MACOS_INCLUDE})

# macos_package(<stub> <targets…>): interface targets on the stub's library.
function(macos_package stub)
  # Written for real between the compilation and the link.
  set(library ${MPSD_MACOS_STUBS}/lib${stub}.tbd)
  if(stub AND NOT EXISTS ${library})
    file(WRITE ${library} "")
  endif()
  foreach(target ${ARGN})
    if(TARGET ${target})
      continue()
    endif()
    add_library(${target} INTERFACE IMPORTED GLOBAL)
    target_include_directories(${target} SYSTEM INTERFACE
                               ${MPSD_MACOS_INCLUDE})
    if(stub)
      target_link_libraries(${target} INTERFACE ${library})
    endif()
  endforeach()
endfunction()

macro(macos_provide method package)
  set(${package}_FOUND TRUE)
  if("${package}" STREQUAL absl)
    macos_package(absl absl::status absl::statusor absl::strings absl::time
                  absl::synchronization absl::flat_hash_map absl::str_format)
  elseif("${package}" STREQUAL nlohmann_json)
    macos_package("" nlohmann_json::nlohmann_json)
  elseif("${package}" STREQUAL CLI11)
    macos_package("" CLI11::CLI11)
  elseif("${package}" STREQUAL OpenSSL)
    macos_package(crypto OpenSSL::Crypto)
    macos_package(ssl OpenSSL::SSL)
  elseif("${package}" STREQUAL ZLIB)
    macos_package(z ZLIB::ZLIB)
  elseif("${package}" STREQUAL PCRE2)
    macos_package(pcre2 PCRE2::8BIT)
  elseif("${package}" STREQUAL PNG)
    macos_package(png PNG::PNG)
  elseif("${package}" STREQUAL JPEG)
    macos_package(jpeg JPEG::JPEG)
  elseif("${package}" STREQUAL WebP)
    macos_package(webp WebP::webp)
  elseif("${package}" STREQUAL gRPC)
    macos_package(grpc++ gRPC::grpc++)
    macos_package(grpc++_reflection gRPC::grpc++_reflection)
    target_link_libraries(gRPC::grpc++_reflection INTERFACE gRPC::grpc++)
  elseif("${package}" STREQUAL Protobuf)
    macos_package(protobuf protobuf::libprotobuf)
  elseif("${package}" STREQUAL SQLiteCpp)
    macos_package(SQLiteCpp SQLiteCpp)
  elseif("${package}" STREQUAL spdlog)
    macos_package(spdlog spdlog::spdlog)
    macos_package(fmt fmt::fmt)
    target_link_libraries(spdlog::spdlog INTERFACE fmt::fmt)
    target_compile_definitions(spdlog::spdlog INTERFACE
      SPDLOG_SHARED_LIB SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL)
  elseif("${package}" STREQUAL prometheus-cpp)
    macos_package(prometheus-cpp-core prometheus-cpp::core)
  elseif("${package}" STREQUAL Threads)
    macos_package("" Threads::Threads)  # libSystem has them
  else()
    message(FATAL_ERROR "tests/macos/packages.cmake knows no ${package}")
  endif()
endmacro()

cmake_language(SET_DEPENDENCY_PROVIDER macos_provide
               SUPPORTED_METHODS FIND_PACKAGE)
