# SPDX-License-Identifier: Apache-2.0
# Writes the page's sources as C++ strings:
#   cmake -DPAGE_DIR=core/report/page -DUPLOT_DIR=…/uplot -DSCRIPTS=a.js,b.js
#         -DOUTPUT=run_page_sources.inc -P embed.cmake
# The scripts become one, in the order of SCRIPTS, after uPlot and its licence.

file(READ ${UPLOT_DIR}/LICENSE licence)
file(READ ${UPLOT_DIR}/dist/uPlot.iife.min.js uplot_script)
file(READ ${UPLOT_DIR}/dist/uPlot.min.css uplot_style)
file(READ ${PAGE_DIR}/page.html page)
file(READ ${PAGE_DIR}/style.css style)

set(own "")
string(REPLACE "," ";" scripts "${SCRIPTS}")
foreach(name IN LISTS scripts)
  file(READ ${PAGE_DIR}/${name} text)
  string(APPEND own "${text}")
endforeach()

set(script "/*!\n${licence}*/\n${uplot_script}\n(() => {\n${own}})();\n")
set(style "${uplot_style}\n${style}")

file(WRITE ${OUTPUT} "// Made by core/report/embed.cmake.\n")
foreach(pair "Page=page" "Style=style" "Script=script" "Licence=licence")
  string(REPLACE "=" ";" pair "${pair}")
  list(GET pair 0 name)
  list(GET pair 1 variable)
  file(APPEND ${OUTPUT} "constexpr std::string_view k${name} = R\"page(")
  file(APPEND ${OUTPUT} "${${variable}}")
  file(APPEND ${OUTPUT} ")page\";\n")
endforeach()
