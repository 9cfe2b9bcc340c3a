# SPDX-License-Identifier: Apache-2.0
# core/report: the page of a run, with uPlot in it. Included by
# core/CMakeLists.txt.

# The page's scripts, each after those that it uses.
set(page_scripts numbers.js run.js curves.js compare.js dom.js plot.js
                 sections.js main.js)
set(page_dir ${CMAKE_CURRENT_SOURCE_DIR}/report/page)
set(uplot_dir ${PROJECT_SOURCE_DIR}/build/npm/run_page/node_modules/uplot)
if(NOT EXISTS "${uplot_dir}/dist/uPlot.iife.min.js")
  message(FATAL_ERROR "no uPlot, which draws a run's curves, under "
                      "'${uplot_dir}': run deploy/setup.sh")
endif()

list(TRANSFORM page_scripts PREPEND ${page_dir}/ OUTPUT_VARIABLE page_sources)
list(APPEND page_sources ${page_dir}/page.html ${page_dir}/style.css
                         ${uplot_dir}/dist/uPlot.iife.min.js
                         ${uplot_dir}/dist/uPlot.min.css ${uplot_dir}/LICENSE)
list(JOIN page_scripts "," page_script_names)
set(page_gen ${CMAKE_CURRENT_BINARY_DIR}/gen/run_page)
file(MAKE_DIRECTORY ${page_gen})
add_custom_command(
  OUTPUT ${page_gen}/run_page_sources.inc
  COMMAND ${CMAKE_COMMAND} -DPAGE_DIR=${page_dir} -DUPLOT_DIR=${uplot_dir}
          -DSCRIPTS=${page_script_names}
          -DOUTPUT=${page_gen}/run_page_sources.inc
          -P ${CMAKE_CURRENT_SOURCE_DIR}/report/embed.cmake
  DEPENDS ${page_sources} ${CMAKE_CURRENT_SOURCE_DIR}/report/embed.cmake
  COMMENT "Embedding the page of a run")

mpsd_room(core report DEPS mpsd_core_spec mpsd_core_host mpsd_core_base
                           nlohmann_json::nlohmann_json
                           absl::status absl::statusor absl::strings)
target_sources(mpsd_core_report PRIVATE ${page_gen}/run_page_sources.inc)
target_include_directories(mpsd_core_report PRIVATE ${page_gen})
