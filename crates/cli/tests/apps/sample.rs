// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes the smallest valid files for applications to open, with the words "palisade sample".

use crate::support::Place;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The words that each of them shows, as text or as its title.
const WORDS: &str = "palisade sample";

/// The colour in the samples that are pictures. Only they have it on the screen, so a sample that has it is visible.
pub(crate) const COLOUR: [u8; 3] = [200, 60, 20];

/// Whether the sample in an argument has the colour.
pub(crate) fn is_coloured(argument: &str) -> bool {
    ["html", "pdf", "png", "svg", "mp4", "odt"]
        .iter()
        .any(|kind| argument.contains(&format!("${{sample.{kind}}}")))
}

/// Puts samples in the place of `${sample.KIND}`; makes those that are named.
///
/// # Errors
/// The kind that can't be made here, and why.
pub(crate) fn fill(argument: &str, place: &Place) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = argument;
    while let Some((before, after)) = rest.split_once("${sample.") {
        let (kind, after) = after.split_once('}').ok_or_else(|| format!("{argument}: no `}}`"))?;
        filled.push_str(before);
        filled.push_str(make(kind, place)?.to_str().unwrap());
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Writes the sample of a kind below the home.
fn make(kind: &str, place: &Place) -> Result<PathBuf, String> {
    let content = match kind {
        "txt" => format!("{WORDS}\n").into_bytes(),
        "html" => html(),
        "pdf" => pdf(),
        "png" => png(),
        "svg" => svg(),
        "wav" => wav(),
        "torrent" => torrent(),
        "odt" => odt(),
        "mp4" => mp4(&place.home)?,
        _ => return Err(format!("there is no sample of kind {kind}")),
    };
    Ok(place.write(&format!("samples/sample.{kind}"), content))
}

fn html() -> Vec<u8> {
    let colour = hexadecimal();
    format!(
        "<!DOCTYPE html>\n<html><head><title>{WORDS}</title></head>\
         <body style=\"background: #{colour}\"><p>{WORDS}</p></body></html>\n"
    )
    .into_bytes()
}

/// A square.
fn svg() -> Vec<u8> {
    let colour = hexadecimal();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"200\" height=\"200\"><title>{WORDS}</title>\
         <rect width=\"200\" height=\"200\" fill=\"#{colour}\"/></svg>\n"
    )
    .into_bytes()
}

/// A page in the colour with the words, and the words as its title.
fn pdf() -> Vec<u8> {
    let [red, green, blue] = COLOUR.map(|part| f64::from(part) / 255.0);
    let page =
        format!("{red:.3} {green:.3} {blue:.3} rg 0 0 240 100 re f 0 g BT /F 24 Tf 20 40 Td ({WORDS}) Tj ET");
    let objects = [
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned(),
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 240 100]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>"
            .to_owned(),
        format!("<</Length {}>>stream\n{page}\nendstream", page.len()),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_owned(),
        format!("<</Title({WORDS})>>"),
    ];
    let mut file = "%PDF-1.4\n".to_owned();
    let mut places = String::new();
    for (nth, object) in objects.iter().enumerate() {
        places.push_str(&format!("{:010} 00000 n \n", file.len()));
        file.push_str(&format!("{} 0 obj\n{object}\nendobj\n", nth + 1));
    }
    let table = file.len();
    let size = objects.len() + 1;
    file.push_str(&format!("xref\n0 {size}\n0000000000 65535 f \n{places}"));
    file.push_str(&format!("trailer\n<</Size {size}/Root 1 0 R/Info 6 0 R>>\nstartxref\n{table}\n%%EOF\n"));
    file.into_bytes()
}

/// A picture of 32 by 32 points.
fn png() -> Vec<u8> {
    let (width, height) = (32_u32, 32_u32);
    let mut points = Vec::new();
    for _row in 0..height {
        // No filter, then red, green, blue.
        points.push(0);
        points.extend((0..width).flat_map(|_| COLOUR));
    }
    // Deflate with nothing compressed: a header, one block, a checksum.
    let length = u16::try_from(points.len()).unwrap();
    let mut data = vec![0x78, 0x01, 1];
    data.extend(length.to_le_bytes());
    data.extend((!length).to_le_bytes());
    data.extend(&points);
    data.extend(adler(&points).to_be_bytes());
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend([8, 2, 0, 0, 0]);
    let text = [b"Title\0", WORDS.as_bytes()].concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, content) in [(b"IHDR", header), (b"tEXt", text), (b"IDAT", data), (b"IEND", Vec::new())] {
        file.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
        let checked = [kind.as_slice(), &content].concat();
        file.extend(&checked);
        file.extend(crc(&checked).to_be_bytes());
    }
    file
}

/// A second of a tone.
fn wav() -> Vec<u8> {
    let rate = 8000_u32;
    // Eight values a wave, 8 bits each.
    let wave = [128, 218, 255, 218, 128, 38, 0, 38];
    let sound: Vec<u8> = wave.into_iter().cycle().take(8000).collect();
    let mut file = b"RIFF".to_vec();
    file.extend((36 + rate).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16_u32.to_le_bytes());
    // Plain values, one channel.
    file.extend([1, 0, 1, 0]);
    file.extend(rate.to_le_bytes());
    file.extend(rate.to_le_bytes());
    file.extend([1, 0, 8, 0]);
    file.extend(b"data");
    file.extend(rate.to_le_bytes());
    file.extend(sound);
    file
}

/// A torrent of a file that no peer has. Its checksum is made up, and it names no tracker.
fn torrent() -> Vec<u8> {
    let info = format!("d6:lengthi16e4:name{}:{WORDS}12:piece lengthi16384e6:pieces20:", WORDS.len());
    [b"d4:info", info.as_bytes(), &[7; 20], b"ee"].concat()
}

/// A text document: an archive in which nothing is compressed.
fn odt() -> Vec<u8> {
    let office = "urn:oasis:names:tc:opendocument:xmlns";
    let colour = hexadecimal();
    let kind = "application/vnd.oasis.opendocument.text";
    let content = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<office:document-content office:version=\"1.2\" \
         xmlns:office=\"{office}:office:1.0\" xmlns:style=\"{office}:style:1.0\" xmlns:text=\"{office}:text:1.0\" \
         xmlns:fo=\"urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0\"><office:automatic-styles>\
         <style:style style:name=\"S\" style:family=\"paragraph\">\
         <style:paragraph-properties fo:background-color=\"#{colour}\"/></style:style></office:automatic-styles>\
         <office:body><office:text><text:p text:style-name=\"S\">{WORDS}</text:p></office:text></office:body></office:document-content>"
    );
    let manifest = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<manifest:manifest manifest:version=\"1.2\" \
         xmlns:manifest=\"{office}:manifest:1.0\"><manifest:file-entry manifest:full-path=\"/\" \
         manifest:media-type=\"{kind}\"/><manifest:file-entry manifest:full-path=\"content.xml\" \
         manifest:media-type=\"text/xml\"/></manifest:manifest>"
    );
    zip(&[("mimetype", kind), ("content.xml", &content), ("META-INF/manifest.xml", &manifest)])
}

fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = Vec::new();
    let mut directory = Vec::new();
    for (name, content) in files {
        let at = u32::try_from(archive.len()).unwrap();
        let size = u32::try_from(content.len()).unwrap().to_le_bytes();
        // Version 2.0, no flags, not compressed, the first date that the format can express.
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        common.extend(crc(content.as_bytes()).to_le_bytes());
        common.extend(size);
        common.extend(size);
        common.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
        common.extend([0, 0]);
        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(name.as_bytes());
        archive.extend(content.as_bytes());
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&common);
        // No comment, first disk, no attributes.
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (count, at) = (u16::try_from(files.len()).unwrap(), u32::try_from(archive.len()).unwrap());
    let size = u32::try_from(directory.len()).unwrap();
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend(count.to_le_bytes());
    archive.extend(count.to_le_bytes());
    archive.extend(size.to_le_bytes());
    archive.extend(at.to_le_bytes());
    archive.extend([0, 0]);
    archive
}

/// Two seconds of nothing but the colour, by ffmpeg.
fn mp4(directory: &Path) -> Result<Vec<u8>, String> {
    let file = directory.join("made.mp4");
    let title = format!("title={WORDS}");
    let picture = format!("color=c=0x{}:d=2:s=160x120:r=10", hexadecimal());
    let output = Command::new("ffmpeg")
        .args(["-v", "error", "-y", "-f", "lavfi", "-i", &picture, "-c:v", "mpeg4"])
        .args(["-metadata", &title])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("ffmpeg, which makes the sample: {error}"))?;
    let content = std::fs::read(&file)
        .map_err(|_none| format!("ffmpeg made no sample: {}", String::from_utf8_lossy(&output.stderr)))?;
    std::fs::remove_file(&file).unwrap();
    Ok(content)
}

/// The colour as web pages have it.
fn hexadecimal() -> String {
    COLOUR.iter().map(|part| format!("{part:02x}")).collect()
}

/// The checksum of PNG and ZIP.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _bit| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    })
}

/// The checksum of zlib.
fn adler(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1_u32, 0_u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65521;
        (low, (high + low) % 65521)
    });
    high << 16 | low
}

#[test]
fn checksums_are_those_of_the_standards() {
    assert_eq!(crc(b"123456789"), 0xcbf4_3926);
    assert_eq!(adler(b"Wikipedia"), 0x11e6_0398);
}
