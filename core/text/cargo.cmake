# SPDX-License-Identifier: Apache-2.0

# Sets MPSD_CARGO to a cargo of at least `minimum`: that of the PATH, else
# rustup's. A distribution's may be too old for the crates.
function(mpsd_find_cargo minimum)
  find_program(cargo_in_path cargo NO_CACHE)
  set(seen "none")
  foreach(candidate ${cargo_in_path} $ENV{HOME}/.cargo/bin/cargo)
    if(NOT EXISTS ${candidate})
      continue()
    endif()
    execute_process(COMMAND ${candidate} --version
                    OUTPUT_VARIABLE version ERROR_QUIET)
    string(REGEX MATCH "[0-9]+\\.[0-9]+" version "${version}")
    set(seen "${version} at ${candidate}")
    if(version VERSION_GREATER_EQUAL minimum)
      set(MPSD_CARGO ${candidate} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "core/text needs Rust's cargo ${minimum} or newer "
                      "(found: ${seen}): run deploy/setup.sh")
endfunction()

# Makes <crate>/Cargo.lock from <crate>/versions.lock, which is a Cargo.lock
# (every version and checksum) with @REGISTRY@ for the registry's address. The
# address is read from cargo itself, once. To move to other versions: edit
# Cargo.toml, remove both lock files, configure again, commit versions.lock.
function(mpsd_pin_crates crate_dir work_dir)
  set(pinned ${crate_dir}/versions.lock)
  set(lock ${crate_dir}/Cargo.lock)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${pinned})
  file(MAKE_DIRECTORY ${work_dir})
  file(LOCK ${work_dir}/pin.lock GUARD FUNCTION TIMEOUT 300)
  if(NOT EXISTS ${lock})
    set(resolve ${MPSD_CARGO} generate-lockfile --quiet
                --manifest-path ${crate_dir}/Cargo.toml)
    execute_process(COMMAND ${resolve} RESULT_VARIABLE failed)
    if(failed)
      execute_process(COMMAND ${resolve} --offline COMMAND_ERROR_IS_FATAL ANY)
    endif()
  endif()
  file(READ ${lock} resolved)
  string(REGEX MATCH "source = \"([^\"]+)\"" found "${resolved}")
  set(address "${CMAKE_MATCH_1}")
  if(NOT EXISTS ${pinned})
    string(REPLACE "${address}" "@REGISTRY@" versions "${resolved}")
    file(WRITE ${pinned} "${versions}")
  endif()
  file(READ ${pinned} versions)
  string(REPLACE "@REGISTRY@" "${address}" wanted "${versions}")
  if(NOT wanted STREQUAL resolved)
    file(WRITE ${lock} "${wanted}")
  endif()
endfunction()
