# SPDX-License-Identifier: Apache-2.0
# The Rust half of core/text: found, pinned and built here, linked as the
# target mpsd_text_rust. The crate is built once under build/cargo for all build
# folders; cargo's own lock keeps two of them from building it at a time.
include(${CMAKE_CURRENT_LIST_DIR}/cargo.cmake)

set(crate_dir ${CMAKE_CURRENT_LIST_DIR}/crate)
set(cargo_target_dir ${PROJECT_SOURCE_DIR}/build/cargo)
mpsd_find_cargo(1.85)
mpsd_pin_crates(${crate_dir} ${cargo_target_dir})

# The binary contains no path of the machine that built the crate.
set(cargo_home $ENV{HOME}/.cargo)
if(DEFINED ENV{CARGO_HOME})
  set(cargo_home $ENV{CARGO_HOME})
endif()
set(cargo_env "RUSTFLAGS=--remap-path-prefix=${cargo_home}=cargo \
--remap-path-prefix=${PROJECT_SOURCE_DIR}=.")
list(APPEND cargo_env CARGO_TARGET_DIR=${cargo_target_dir})
if(APPLE)
  list(APPEND cargo_env MACOSX_DEPLOYMENT_TARGET=${CMAKE_OSX_DEPLOYMENT_TARGET})
endif()
set(cargo_options "")
set(cargo_out ${cargo_target_dir})
if(MPSD_CARGO_TARGET)  # another machine's, as cargo names it
  set(cargo_options --target ${MPSD_CARGO_TARGET})
  string(APPEND cargo_out /${MPSD_CARGO_TARGET})
endif()

file(GLOB crate_sources CONFIGURE_DEPENDS ${crate_dir}/src/*.rs)
set(crate_library ${CMAKE_CURRENT_BINARY_DIR}/libmpsd_text.a)
add_custom_command(
  OUTPUT ${crate_library}
  COMMAND ${CMAKE_COMMAND} -E env ${cargo_env}
          ${MPSD_CARGO} build --release --locked --quiet ${cargo_options}
          --manifest-path ${crate_dir}/Cargo.toml
  COMMAND ${CMAKE_COMMAND} -E copy ${cargo_out}/release/libmpsd_text.a
          ${crate_library}
  DEPENDS ${crate_sources} ${crate_dir}/Cargo.toml ${crate_dir}/Cargo.lock
  COMMENT "Building the Rust crate of core/text" VERBATIM)
add_custom_target(mpsd_text_crate DEPENDS ${crate_library})
add_library(mpsd_text_rust STATIC IMPORTED GLOBAL)
set_target_properties(mpsd_text_rust PROPERTIES
  IMPORTED_LOCATION ${crate_library})
target_link_libraries(mpsd_text_rust INTERFACE
  Threads::Threads ${CMAKE_DL_LIBS} m)
add_dependencies(mpsd_text_rust mpsd_text_crate)

mpsd_room(core text DEPS mpsd_core_base nlohmann_json::nlohmann_json
                         mpsd_text_rust)
