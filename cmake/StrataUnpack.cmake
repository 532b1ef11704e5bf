# Reference data is kept compressed, so that the repository stays small: FOLDER.tar.xz stands for what tests read as
# FOLDER/, which git ignores. Configuring unpacks what is new; `scripts/pack-data FOLDER` makes an archive of a folder.

# strata_unpack(ROOT): every archive below ROOT, beside itself.
function(strata_unpack root)
  file(GLOB_RECURSE archives CONFIGURE_DEPENDS ${root}/*.tar.xz)
  foreach(archive IN LISTS archives)
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${archive})
    string(REGEX REPLACE "\\.tar\\.xz$" "" folder ${archive})
    file(SHA256 ${archive} wanted)
    set(present "")
    if(EXISTS ${folder}/.unpacked)
      file(READ ${folder}/.unpacked present)
    endif()
    if(NOT present STREQUAL wanted)
      file(REMOVE_RECURSE ${folder})
      file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${folder})
      file(WRITE ${folder}/.unpacked ${wanted})
    endif()
  endforeach()
endfunction()
