# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Installs a formula into a cellar, and runs its test: homebrew.rb FORMULA ARCHIVE PREFIX. It has the part of Homebrew's
# formula language that Palisade's formula uses. A word that it lacks is an error.
require "digest"
require "fileutils"
require "json"
require "open3"
require "tmpdir"

# A directory into which a formula puts files.
class Place
  def initialize(path)
    @path = path
  end

  def install(*files)
    files = files.flatten
    raise "nothing to install in #{@path}" if files.empty?

    FileUtils.mkdir_p(@path)
    files.each { |file| FileUtils.mv(file, @path) }
  end

  def to_s
    @path
  end
end

# What a formula inherits.
class Formula
  class << self
    attr_reader :stated, :checks

    %i[desc homepage version license url sha256].each do |word|
      define_method(word) { |*value| value.empty? ? @stated[word] : (@stated[word] = value.first) }
    end

    def inherited(formula)
      super
      formula.instance_variable_set(:@stated, {})
      Formula.instance_variable_set(:@last, formula)
    end

    def last
      @last
    end

    def depends_on(what)
      raise "depends on #{what}" unless what == :linux
    end

    def on_intel
      yield if RUBY_PLATFORM.start_with?("x86_64")
    end

    def on_arm
      yield if RUBY_PLATFORM.start_with?("aarch64")
    end

    def test(&block)
      @checks = block
    end
  end

  attr_reader :assertions

  def initialize(cellar)
    @cellar = cellar
    @assertions = 0
  end

  { bin: "bin", doc: "share/doc/palisade", man1: "share/man/man1", bash_completion: "etc/bash_completion.d",
    zsh_completion: "share/zsh/site-functions", fish_completion: "share/fish/vendor_completions.d" }.each do |word, path|
    define_method(word) { Place.new(File.join(@cellar, path)) }
  end

  def version
    self.class.version
  end

  def shell_output(command)
    output, status = Open3.capture2(command)
    raise "#{command} ended with #{status}" unless status.success?

    output
  end

  def assert_match(pattern, text)
    raise "no #{pattern} in #{text}" unless text.match?(pattern.is_a?(String) ? Regexp.escape(pattern) : pattern)

    @assertions += 1
  end
end

formula, archive, prefix = ARGV
load formula
stated = Formula.last.stated
raise "the formula states #{stated}" unless %i[desc homepage version license url sha256].all? { |word| stated[word] }
raise "the checksum is another" unless stated[:sha256] == Digest::SHA256.file(archive).hexdigest
raise "the address is another" unless File.basename(stated[:url]) == File.basename(archive)

cellar = File.join(prefix, "Cellar", Formula.last.name.downcase, stated[:version])
made = Formula.last.new(cellar)
Dir.mktmpdir do |work|
  system("tar", "-xzf", archive, "-C", work, exception: true)
  # Homebrew goes into the only directory of an archive.
  top = Dir.children(work)
  raise "several directories: #{top}" unless top.length == 1

  Dir.chdir(File.join(work, top.first)) { made.install }
end
File.write(File.join(cellar, "INSTALL_RECEIPT.json"), JSON.generate({ source: { tap: "palisade-sandbox/tap" } }))
made.instance_eval(&Formula.last.checks)
puts "#{made.assertions} assertions passed"
