# README.md's example of embedding the runtime: built, compared with the text, and run on a fixture.
add_executable(readme_embed readme/embed.cpp)
target_link_libraries(readme_embed PRIVATE rtx_runtime rtx_runtime_cpu)
rtx_add_script_test(readme tests/readme/readme_test.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE_DIR:rtx-run>
                    $<TARGET_FILE:readme_embed> ORACLE LABEL e2e)
