# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, which defines kBuildCommit as the commit of the checkout
# SOURCE. An up-to-date file is not written, so that nothing is compiled
# again. Run at each build: cmake -DSOURCE=… -DOUTPUT=… -P this.
set(commit unknown)
find_program(git git)
if(git)
  # The prefix is empty only at the top of a checkout: sources that are merely
  # inside some other checkout have no commit.
  execute_process(
    COMMAND ${git} rev-parse --show-prefix
    WORKING_DIRECTORY ${SOURCE} RESULT_VARIABLE failed OUTPUT_VARIABLE prefix
    ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed EQUAL 0 AND prefix STREQUAL "")
    # Without optional locks it never disturbs a concurrent git.
    execute_process(
      COMMAND ${CMAKE_COMMAND} -E env GIT_OPTIONAL_LOCKS=0
              ${git} describe --always --dirty --abbrev=12 --exclude=*
      WORKING_DIRECTORY ${SOURCE} RESULT_VARIABLE failed OUTPUT_VARIABLE found
      ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(failed EQUAL 0 AND found MATCHES "^[0-9a-f]+(-dirty)?$")
      set(commit ${found})
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY
     CONTENT "inline constexpr char kBuildCommit[] = \"${commit}\";\n")
