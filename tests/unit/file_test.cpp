#include "base/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "base/folder.h"
#include "base/sha256.h"
#include "tests/temp_folder.h"

namespace rtx {
namespace {

namespace fs = std::filesystem;

size_t entries(const std::string& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST_CASE("a file is read in pieces, and never past its end") {
  const TempFolder folder;
  const auto file = File::open(folder.file("a", "0123456789"));
  REQUIRE(file.ok());
  CHECK((*file)->size() == 10);
  std::vector<std::byte> buffer(3);
  REQUIRE((*file)->read(7, buffer).ok());
  CHECK(buffer[2] == std::byte{'9'});
  CHECK((*file)->read(10, std::span<std::byte>()).ok());
  for (const int64_t offset : {int64_t{8}, int64_t{-1}, int64_t{11}, INT64_MAX}) {
    const auto read = (*file)->read(offset, buffer);
    REQUIRE(!read.ok());
    CHECK(read.error().first().id == "E902");
  }
}

TEST_CASE("a file that shrinks while it is open gives an error") {
  const TempFolder folder;
  const std::string path = folder.file("a", "0123456789");
  const auto file = File::open(path);
  REQUIRE(truncate(path.c_str(), 4) == 0);
  std::vector<std::byte> buffer(10);
  const auto read = (*file)->read(0, buffer);
  REQUIRE(!read.ok());
  CHECK(read.error().first().id == "E902");
}

TEST_CASE("what is not a regular file is refused, without waiting") {
  const TempFolder folder;
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
  for (const std::string& path : {folder / "fifo", folder.path(), std::string("/dev/zero")}) {
    const auto file = File::open(path);
    REQUIRE(!file.ok());
    CHECK(file.error().first().id == "E314");
  }
  const auto missing = File::open(folder / "missing");
  REQUIRE(!missing.ok());
  CHECK(missing.error().first().id == "E901");
  CHECK(missing.error().first().kind == ErrorKind::io);
}

TEST_CASE("a text file above the limit is refused") {
  const TempFolder folder;
  const std::string path = folder.file("a", "12345");
  CHECK(*read_text_file(path, 5) == "12345");
  const auto refused = read_text_file(path, 4);
  REQUIRE(!refused.ok());
  CHECK(refused.error().first().id == "E501");
}

TEST_CASE("a written file appears whole on commit, and not at all without it") {
  const TempFolder folder;
  const std::string path = folder.file("a", "old");
  {
    auto writer = FileWriter::create(path);
    REQUIRE(writer.ok());
    REQUIRE((*writer)->write("new contents").ok());
    CHECK(*read_text_file(path, 100) == "old");
    CHECK(entries(folder.path()) == 2);
  }
  CHECK(*read_text_file(path, 100) == "old");
  CHECK(entries(folder.path()) == 1);
  REQUIRE(write_file(path, "new contents").ok());
  CHECK(*read_text_file(path, 100) == "new contents");
  CHECK(entries(folder.path()) == 1);
  CHECK(!write_file(folder / "no/such/folder", "").ok());
}

TEST_CASE("a folder replaces an older one only where allowed, and leaves nothing when given up") {
  const TempFolder folder;
  const std::string path = folder / "out";
  bool allowed = true;
  auto may_replace = [&](const std::string&) { return allowed; };
  auto fill = [&](const char* contents) {
    auto writer = FolderWriter::create(path + "/", may_replace);
    REQUIRE(writer.ok());
    REQUIRE(write_file((*writer)->path() + "/file", contents).ok());
    return std::move(writer).value();
  };
  REQUIRE(fill("one")->commit().ok());
  CHECK(*read_text_file(path + "/file", 100) == "one");
  fill("never");
  CHECK(*read_text_file(path + "/file", 100) == "one");
  REQUIRE(fill("two")->commit().ok());
  CHECK(*read_text_file(path + "/file", 100) == "two");
  CHECK(entries(folder.path()) == 1);

  auto late = fill("three");
  allowed = false;  // somebody put other files there meanwhile
  CHECK(late->commit().error().first().id == "E903");
  late.reset();
  CHECK(FolderWriter::create(path, may_replace).error().first().id == "E903");
  CHECK(*read_text_file(path + "/file", 100) == "two");
  CHECK(entries(folder.path()) == 1);

  allowed = true;
  folder.file("plain", "");
  CHECK(FolderWriter::create(folder / "plain", may_replace).error().first().id == "E903");
}

TEST_CASE("a folder opens only its own regular files") {
  const TempFolder path;
  path.file("a", "1");
  path.file("b", "22");
  fs::create_symlink("a", path / "link");
  fs::create_directory(path / "folder");
  auto folder = Folder::open(path.path());
  REQUIRE(folder.ok());
  CHECK(*folder->names() == std::vector<std::string>{"a", "b", "folder", "link"});
  CHECK(*folder->names() == *folder->names());
  CHECK((*folder->open_file("b"))->size() == 2);
  CHECK(folder->open_file("c").error().first().id == "E905");
  CHECK(folder->open_file("../a").error().first().id == "E905");
  CHECK(folder->open_file("link").error().first().id == "E906");
  CHECK(folder->open_file("folder").error().first().id == "E906");
  CHECK(Folder::open(path / "a").error().first().id == "E904");
  CHECK(Folder::open(path / "missing").error().first().id == "E901");
}

TEST_CASE("SHA-256 gives the digests of FIPS 180-4") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 hash;
  for (int i = 0; i < 1'000'000; i += 1000) hash.update(std::string(1000, 'a'));
  CHECK(hash.finish_hex() == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  const TempFolder folder;
  const auto file = File::open(folder.file("a", std::string(1'000'000, 'a')));
  CHECK(*sha256_hex(**file) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace rtx
