//! Errors in other languages than English, as compilers, shells and the C library print them.
//!
//! The words and messages are from the catalogues of gcc, git, bash and glibc. Only lines with a
//! byte above 0x7F are searched for them, so that plain ASCII costs nothing. The word of German is
//! among the `rules`, as its lines often are ASCII.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Input, MatchKind};
use bstr::ByteSlice as _;
use memchr::{memchr, memrchr};
use regex::bytes::Regex;
use regex::escape;

type Language = (&'static [&'static str], &'static [&'static str]);

/// For each language, the words for an error that stand before a colon, and the messages for: no such
/// command, no such file, no permission, connection refused, timed out, no space, no memory, and a
/// segmentation fault.
#[rustfmt::skip]
const LANGUAGES: &[Language] = &[
    // Chinese
    (
        &[
            "\u{9519}\u{8bef}", "\u{932f}\u{8aa4}", "\u{81f4}\u{547d}\u{9519}\u{8bef}",
            "\u{56b4}\u{91cd}\u{932f}\u{8aa4}", "\u{81f4}\u{547d}\u{932f}\u{8aa4}",
            "\u{7f16}\u{8bd1}\u{5668}\u{5185}\u{90e8}\u{9519}\u{8bef}",
            "\u{7de8}\u{8b6f}\u{5668}\u{5167}\u{90e8}\u{932f}\u{8aa4}",
        ],
        &[
            "\u{672a}\u{627e}\u{5230}\u{547d}\u{4ee4}",
            "\u{6ca1}\u{6709}\u{90a3}\u{4e2a}\u{6587}\u{4ef6}\u{6216}\u{76ee}\u{5f55}",
            "\u{6743}\u{9650}\u{4e0d}\u{591f}", "\u{62d2}\u{7edd}\u{8fde}\u{63a5}",
            "\u{8fde}\u{63a5}\u{8d85}\u{65f6}",
            "\u{8bbe}\u{5907}\u{4e0a}\u{6ca1}\u{6709}\u{7a7a}\u{95f4}",
            "\u{65e0}\u{6cd5}\u{5206}\u{914d}\u{5185}\u{5b58}", "\u{6bb5}\u{9519}\u{8bef}",
            "\u{6307}\u{4ee4}\u{627e}\u{4e0d}\u{5230}",
            "\u{6c92}\u{6709}\u{6b64}\u{4e00}\u{6a94}\u{6848}\u{6216}\u{76ee}\u{9304}",
            "\u{62d2}\u{7d55}\u{4e0d}\u{7b26}\u{6b0a}\u{9650}\u{7684}\u{64cd}\u{4f5c}",
            "\u{9023}\u{7dda}\u{88ab}\u{62d2}\u{7d55}",
            "\u{9023}\u{7dda}\u{8d85}\u{904e}\u{6642}\u{9593}",
            "\u{88dd}\u{7f6e}\u{4e0a}\u{5df2}\u{7121}\u{591a}\u{9918}\u{7a7a}\u{9593}",
            "\u{7121}\u{6cd5}\u{914d}\u{7f6e}\u{8a18}\u{61b6}\u{9ad4}",
            "\u{7a0b}\u{5f0f}\u{8a18}\u{61b6}\u{9ad4}\u{5340}\u{6bb5}\u{932f}\u{8aa4}",
        ],
    ),
    // Japanese
    (
        &[
            "\u{30a8}\u{30e9}\u{30fc}", "\u{81f4}\u{547d}\u{7684}\u{30a8}\u{30e9}\u{30fc}",
            "\u{30b3}\u{30f3}\u{30d1}\u{30a4}\u{30e9}\u{5185}\u{90e8}\u{30a8}\u{30e9}\u{30fc}",
        ],
        &[
            "\u{30b3}\u{30de}\u{30f3}\u{30c9}\u{304c}\u{898b}\u{3064}\u{304b}\u{308a}\u{307e}\u{305b}\u{3093}",
            "\u{305d}\u{306e}\u{3088}\u{3046}\u{306a}\u{30d5}\u{30a1}\u{30a4}\u{30eb}\u{3084}\u{30c7}\u{30a3}\u{30ec}\u{30af}\u{30c8}\u{30ea}\u{306f}\u{3042}\u{308a}\u{307e}\u{305b}\u{3093}",
            "\u{8a31}\u{53ef}\u{304c}\u{3042}\u{308a}\u{307e}\u{305b}\u{3093}",
            "\u{63a5}\u{7d9a}\u{3092}\u{62d2}\u{5426}\u{3055}\u{308c}\u{307e}\u{3057}\u{305f}",
            "\u{63a5}\u{7d9a}\u{304c}\u{30bf}\u{30a4}\u{30e0}\u{30a2}\u{30a6}\u{30c8}\u{3057}\u{307e}\u{3057}\u{305f}",
            "\u{30c7}\u{30d0}\u{30a4}\u{30b9}\u{306b}\u{7a7a}\u{304d}\u{9818}\u{57df}\u{304c}\u{3042}\u{308a}\u{307e}\u{305b}\u{3093}",
            "\u{30e1}\u{30e2}\u{30ea}\u{3092}\u{78ba}\u{4fdd}\u{3067}\u{304d}\u{307e}\u{305b}\u{3093}",
        ],
    ),
    // Korean
    (
        &["\u{c624}\u{b958}", "\u{ce58}\u{ba85}\u{c801} \u{c624}\u{b958}"],
        &[
            "\u{ba85}\u{b839}\u{c5b4}\u{b97c} \u{cc3e}\u{c744} \u{c218} \u{c5c6}\u{c74c}",
            "\u{adf8}\u{b7f0} \u{d30c}\u{c77c}\u{c774}\u{b098} \u{b514}\u{b809}\u{d130}\u{b9ac}\u{ac00} \u{c5c6}\u{c2b5}\u{b2c8}\u{b2e4}",
            "\u{d5c8}\u{ac00} \u{ac70}\u{bd80}",
            "\u{c5f0}\u{acb0}\u{c774} \u{ac70}\u{bd80}\u{b428}",
            "\u{c5f0}\u{acb0} \u{c2dc}\u{ac04} \u{cd08}\u{acfc}",
            "\u{c7a5}\u{ce58}\u{c5d0} \u{b0a8}\u{c740} \u{acf5}\u{ac04}\u{c774} \u{c5c6}\u{c74c}",
            "\u{ba54}\u{baa8}\u{b9ac}\u{b97c} \u{d560}\u{b2f9}\u{d560} \u{c218} \u{c5c6}\u{c2b5}\u{b2c8}\u{b2e4}",
            "\u{c138}\u{adf8}\u{ba58}\u{d14c}\u{c774}\u{c158} \u{c624}\u{b958}",
        ],
    ),
    // Spanish
    (
        &[],
        &[
            "orden no encontrada", "No existe el fichero o el directorio", "Permiso denegado",
            "Conexi\u{f3}n rehusada", "Expir\u{f3} el tiempo de conexi\u{f3}n",
            "No queda espacio en el dispositivo", "No se pudo asignar memoria",
            "Violaci\u{f3}n de segmento",
        ],
    ),
    // French
    (
        &["erreur", "Erreur", "erreur fatale", "erreur interne du compilateur"],
        &[
            "commande introuvable", "Aucun fichier ou dossier de ce type",
            "Permission non accord\u{e9}e", "Connexion refus\u{e9}e",
            "Connexion termin\u{e9}e par expiration du d\u{e9}lai d'attente",
            "Aucun espace disponible sur le p\u{e9}riph\u{e9}rique",
            "Ne peut allouer de la m\u{e9}moire", "Erreur de segmentation",
        ],
    ),
    // German
    (
        &["Fehler", "Schwerwiegend", "Compiler-Fehler", "Syntaxfehler"],
        &[
            "Kommando nicht gefunden", "Datei oder Verzeichnis nicht gefunden",
            "Keine Berechtigung", "Verbindungsaufbau abgelehnt",
            "Die Wartezeit f\u{fc}r die Verbindung ist abgelaufen",
            "Auf dem Ger\u{e4}t ist kein Speicherplatz mehr verf\u{fc}gbar",
            "Nicht gen\u{fc}gend Hauptspeicher verf\u{fc}gbar", "Speicherzugriffsfehler",
        ],
    ),
    // Portuguese
    (
        &["erro", "Erro", "erro fatal"],
        &[
            "comando n\u{e3}o encontrado", "Arquivo ou diret\u{f3}rio inexistente",
            "Permiss\u{e3}o negada", "Conex\u{e3}o recusada", "Tempo esgotado para conex\u{e3}o",
            "N\u{e3}o h\u{e1} espa\u{e7}o dispon\u{ed}vel no dispositivo",
            "N\u{e3}o foi poss\u{ed}vel alocar mem\u{f3}ria", "Falha de segmenta\u{e7}\u{e3}o",
            "Ficheiro ou pasta inexistente", "Permiss\u{e3}o recusada",
            "Liga\u{e7}\u{e3}o recusada", "Liga\u{e7}\u{e3}o expirada",
            "Sem espa\u{e7}o livre no dispositivo", "Imposs\u{ed}vel alocar mem\u{f3}ria",
            "Falta de segmenta\u{e7}\u{e3}o",
        ],
    ),
    // Russian
    (
        &[
            "\u{43e}\u{448}\u{438}\u{431}\u{43a}\u{430}",
            "\u{41e}\u{448}\u{438}\u{431}\u{43a}\u{430}",
            "\u{432}\u{43d}\u{443}\u{442}\u{440}\u{435}\u{43d}\u{43d}\u{44f}\u{44f} \u{43e}\u{448}\u{438}\u{431}\u{43a}\u{430} \u{43a}\u{43e}\u{43c}\u{43f}\u{438}\u{43b}\u{44f}\u{442}\u{43e}\u{440}\u{430}",
        ],
        &[
            "\u{43a}\u{43e}\u{43c}\u{430}\u{43d}\u{434}\u{430} \u{43d}\u{435} \u{43d}\u{430}\u{439}\u{434}\u{435}\u{43d}\u{430}",
            "\u{41d}\u{435}\u{442} \u{442}\u{430}\u{43a}\u{43e}\u{433}\u{43e} \u{444}\u{430}\u{439}\u{43b}\u{430} \u{438}\u{43b}\u{438} \u{43a}\u{430}\u{442}\u{430}\u{43b}\u{43e}\u{433}\u{430}",
            "\u{41e}\u{442}\u{43a}\u{430}\u{437}\u{430}\u{43d}\u{43e} \u{432} \u{434}\u{43e}\u{441}\u{442}\u{443}\u{43f}\u{435}",
            "\u{412} \u{441}\u{43e}\u{435}\u{434}\u{438}\u{43d}\u{435}\u{43d}\u{438}\u{438} \u{43e}\u{442}\u{43a}\u{430}\u{437}\u{430}\u{43d}\u{43e}",
            "\u{412}\u{440}\u{435}\u{43c}\u{44f} \u{43e}\u{436}\u{438}\u{434}\u{430}\u{43d}\u{438}\u{44f} \u{441}\u{43e}\u{435}\u{434}\u{438}\u{43d}\u{435}\u{43d}\u{438}\u{44f} \u{438}\u{441}\u{442}\u{435}\u{43a}\u{43b}\u{43e}",
            "\u{41d}\u{430} \u{443}\u{441}\u{442}\u{440}\u{43e}\u{439}\u{441}\u{442}\u{432}\u{435} \u{43d}\u{435} \u{43e}\u{441}\u{442}\u{430}\u{43b}\u{43e}\u{441}\u{44c} \u{441}\u{432}\u{43e}\u{431}\u{43e}\u{434}\u{43d}\u{43e}\u{433}\u{43e} \u{43c}\u{435}\u{441}\u{442}\u{430}",
            "\u{41d}\u{435}\u{432}\u{43e}\u{437}\u{43c}\u{43e}\u{436}\u{43d}\u{43e} \u{432}\u{44b}\u{434}\u{435}\u{43b}\u{438}\u{442}\u{44c} \u{43f}\u{430}\u{43c}\u{44f}\u{442}\u{44c}",
            "\u{41e}\u{448}\u{438}\u{431}\u{43a}\u{430} \u{441}\u{435}\u{433}\u{43c}\u{435}\u{43d}\u{442}\u{438}\u{440}\u{43e}\u{432}\u{430}\u{43d}\u{438}\u{44f}",
        ],
    ),
    // Ukrainian
    (
        &[
            "\u{43f}\u{43e}\u{43c}\u{438}\u{43b}\u{43a}\u{430}",
            "\u{41f}\u{43e}\u{43c}\u{438}\u{43b}\u{43a}\u{430}",
            "\u{432}\u{43d}\u{443}\u{442}\u{440}\u{456}\u{448}\u{43d}\u{44f} \u{43f}\u{43e}\u{43c}\u{438}\u{43b}\u{43a}\u{430} \u{43a}\u{43e}\u{43c}\u{43f}\u{456}\u{43b}\u{44f}\u{442}\u{43e}\u{440}\u{430}",
        ],
        &[
            "\u{43a}\u{43e}\u{43c}\u{430}\u{43d}\u{434}\u{443} \u{43d}\u{435} \u{437}\u{43d}\u{430}\u{439}\u{434}\u{435}\u{43d}\u{43e}",
            "\u{41d}\u{435}\u{43c}\u{430}\u{454} \u{442}\u{430}\u{43a}\u{43e}\u{433}\u{43e} \u{444}\u{430}\u{439}\u{43b}\u{430} \u{430}\u{431}\u{43e} \u{43a}\u{430}\u{442}\u{430}\u{43b}\u{43e}\u{433}\u{443}",
            "\u{412}\u{456}\u{434}\u{43c}\u{43e}\u{432}\u{43b}\u{435}\u{43d}\u{43e} \u{443} \u{434}\u{43e}\u{441}\u{442}\u{443}\u{43f}\u{456}",
            "\u{423} \u{437}'\u{454}\u{434}\u{43d}\u{430}\u{43d}\u{43d}\u{456} \u{432}\u{456}\u{434}\u{43c}\u{43e}\u{432}\u{43b}\u{435}\u{43d}\u{43e}",
            "\u{41f}\u{435}\u{440}\u{435}\u{432}\u{438}\u{449}\u{435}\u{43d}\u{43e} \u{456}\u{43d}\u{442}\u{435}\u{440}\u{432}\u{430}\u{43b} \u{43e}\u{447}\u{456}\u{43a}\u{443}\u{432}\u{430}\u{43d}\u{43d}\u{44f} \u{437}'\u{454}\u{434}\u{43d}\u{430}\u{43d}\u{43d}\u{44f}",
            "\u{41d}\u{435}\u{434}\u{43e}\u{441}\u{442}\u{430}\u{442}\u{43d}\u{44c}\u{43e} \u{43c}\u{456}\u{441}\u{446}\u{44f} \u{43d}\u{430} \u{43f}\u{440}\u{438}\u{441}\u{442}\u{440}\u{43e}\u{457}",
            "\u{41d}\u{435} \u{432}\u{434}\u{430}\u{43b}\u{43e}\u{441}\u{44f} \u{440}\u{43e}\u{437}\u{43f}\u{43e}\u{434}\u{456}\u{43b}\u{438}\u{442}\u{438} \u{43f}\u{430}\u{43c}\u{2019}\u{44f}\u{442}\u{44c}",
            "\u{41f}\u{43e}\u{43c}\u{438}\u{43b}\u{43a}\u{430} \u{430}\u{434}\u{440}\u{435}\u{441}\u{443}\u{432}\u{430}\u{43d}\u{43d}\u{44f}",
        ],
    ),
    // Italian
    (
        &["errore", "Errore", "errore fatale"],
        &[
            "comando non trovato", "File o directory non esistente", "Permesso negato",
            "Connessione rifiutata", "Connessione scaduta", "Spazio esaurito sul device",
            "Impossibile allocare memoria", "Errore di segmentazione",
        ],
    ),
    // Turkish
    (
        &["hata", "Hata", "hatas\u{131}", "onulmaz"],
        &[
            "komut yok", "B\u{f6}yle bir dosya ya da dizin yok", "Eri\u{15f}im engellendi",
            "Ba\u{11f}lant\u{131} reddedildi",
            "Ba\u{11f}lant\u{131}da zaman a\u{15f}\u{131}m\u{131}",
            "Ayg\u{131}t \u{fc}zerinde bo\u{15f} yer yok", "Bellek ayr\u{131}lamad\u{131}",
            "Par\u{e7}alama ar\u{131}zas\u{131}",
        ],
    ),
    // Vietnamese
    (
        &[
            "l\u{1ed7}i", "L\u{1ed7}i", "l\u{1ed7}i nghi\u{ea}m tr\u{1ecd}ng",
            "l\u{1ed7}i bi\u{ea}n d\u{1ecb}ch n\u{1ed9}i b\u{1ed9}",
        ],
        &[
            "kh\u{f4}ng t\u{ec}m th\u{1ea5}y l\u{1ec7}nh",
            "Kh\u{f4}ng c\u{f3} t\u{1ead}p tin ho\u{1eb7}c th\u{1b0} m\u{1ee5}c nh\u{1b0} v\u{1ead}y",
            "Kh\u{f4}ng \u{111}\u{1ee7} quy\u{1ec1}n truy c\u{1ead}p",
            "K\u{1ebf}t n\u{1ed1}i b\u{1ecb} t\u{1eeb} ch\u{1ed1}i",
            "K\u{1ebf}t n\u{1ed1}i \u{111}\u{e3} qu\u{e1} h\u{1ea1}n",
            "Kh\u{f4}ng c\u{f3} \u{111}\u{1ee7} ch\u{1ed7} tr\u{1ed1}ng tr\u{ea}n thi\u{1ebf}t b\u{1ecb}",
            "Kh\u{f4}ng th\u{1ec3} c\u{1ea5}p ph\u{e1}t b\u{1ed9} nh\u{1edb}",
            "L\u{1ed7}i ph\u{e2}n \u{111}o\u{1ea1}n",
        ],
    ),
    // Polish
    (
        &["b\u{142}\u{105}d", "B\u{142}\u{105}d"],
        &[
            "nie znaleziono polecenia", "Nie ma takiego pliku ani katalogu", "Brak dost\u{119}pu",
            "Po\u{142}\u{105}czenie odrzucone",
            "Przekroczony czas oczekiwania na po\u{142}\u{105}czenie",
            "Brak miejsca na urz\u{105}dzeniu", "Nie mo\u{17c}na przydzieli\u{107} pami\u{119}ci",
            "Naruszenie ochrony pami\u{119}ci",
        ],
    ),
    // Dutch
    (
        &["fout", "Fout", "compilerfout"],
        &[
            "opdracht niet gevonden", "Bestand of map bestaat niet", "Toegang geweigerd",
            "Verbinding is geweigerd", "Verbinding is verlopen",
            "Geen ruimte meer over op apparaat", "Onvoldoende geheugen beschikbaar",
            "Segmentatiefout",
        ],
    ),
    // Indonesian
    (
        &["kesalahan", "Kesalahan"],
        &[
            "perintah tidak ditemukan", "Tidak ada berkas atau direktori seperti itu",
            "Ijin ditolak", "Koneksi ditolak", "Koneksi kehabisan waktu",
            "Tidak ruang lagi diperangkat", "Tidak dapat mengalokasikan memori",
            "Kerusakan segmentasi",
        ],
    ),
    // Czech
    (
        &["chyba", "Chyba"],
        &[
            "p\u{159}\u{ed}kaz nenalezen", "Adres\u{e1}\u{159} nebo soubor neexistuje",
            "Operace zam\u{ed}tnuta", "Spojen\u{ed} odm\u{ed}tnuto",
            "Spojen\u{ed} bylo p\u{159}\u{ed}li\u{161} dlouho neaktivn\u{ed}",
            "Na za\u{159}\u{ed}zen\u{ed} nen\u{ed} voln\u{e9} m\u{ed}sto",
            "Nelze alokovat pam\u{11b}\u{165}",
            "Neopr\u{e1}vn\u{11b}n\u{fd} p\u{159}\u{ed}stup do pam\u{11b}ti",
        ],
    ),
    // Swedish
    (
        &["fel", "Fel", "\u{f6}desdigert", "kompilatorfel"],
        &[
            "kommandot finns inte", "Filen eller katalogen finns inte", "\u{c5}tkomst nekas",
            "F\u{f6}rbindelsen f\u{f6}rv\u{e4}grad",
            "F\u{f6}rbindelsens tidsgr\u{e4}ns l\u{f6}pte ut", "Enheten \u{e4}r full",
            "Kan inte allokera minne", "Segmenteringsfel",
        ],
    ),
    // Hungarian
    (
        &["hiba", "Hiba"],
        &[
            "parancs nem tal\u{e1}lhat\u{f3}", "Nincs ilyen f\u{e1}jl vagy k\u{f6}nyvt\u{e1}r",
            "Enged\u{e9}ly megtagadva", "Kapcsolat elutas\u{ed}tva",
            "Id\u{151}t\u{fa}ll\u{e9}p\u{e9}s a kapcsolatban", "Nincs t\u{f6}bb hely a lemezen",
            "Nem foglalhat\u{f3} mem\u{f3}ria", "Szegment\u{e1}l\u{e1}si hiba",
        ],
    ),
    // Romanian
    (
        &["eroare", "Eroare"],
        &["comand\u{103} neg\u{103}sit\u{103}"],
    ),
    // Greek
    (
        &[
            "\u{3c3}\u{3c6}\u{3ac}\u{3bb}\u{3bc}\u{3b1}",
            "\u{3a3}\u{3c6}\u{3ac}\u{3bb}\u{3bc}\u{3b1}",
            "\u{3b5}\u{3c3}\u{3c9}\u{3c4}\u{3b5}\u{3c1}\u{3b9}\u{3ba}\u{3cc} \u{3c3}\u{3c6}\u{3ac}\u{3bb}\u{3bc}\u{3b1} \u{3bc}\u{3b5}\u{3c4}\u{3b1}\u{3b3}\u{3bb}\u{3c9}\u{3c4}\u{3c4}\u{3b9}\u{3c3}\u{3c4}\u{3ae}",
        ],
        &[
            "\u{3b5}\u{3bd}\u{3c4}\u{3bf}\u{3bb}\u{3ae} \u{3b4}\u{3b5}\u{3bd} \u{3b2}\u{3c1}\u{3ad}\u{3b8}\u{3b7}\u{3ba}\u{3b5}",
            "\u{394}\u{3b5}\u{3bd} \u{3c5}\u{3c0}\u{3ac}\u{3c1}\u{3c7}\u{3b5}\u{3b9} \u{3c4}\u{3ad}\u{3c4}\u{3bf}\u{3b9}\u{3bf} \u{3b1}\u{3c1}\u{3c7}\u{3b5}\u{3af}\u{3bf} \u{3ae} \u{3ba}\u{3b1}\u{3c4}\u{3ac}\u{3bb}\u{3bf}\u{3b3}\u{3bf}\u{3c2}",
            "\u{386}\u{3c1}\u{3bd}\u{3b7}\u{3c3}\u{3b7} \u{3c0}\u{3c1}\u{3cc}\u{3c3}\u{3b2}\u{3b1}\u{3c3}\u{3b7}\u{3c2}",
            "\u{391}\u{3c0}\u{3cc}\u{3c1}\u{3c1}\u{3b9}\u{3c8}\u{3b7} \u{3c3}\u{3cd}\u{3bd}\u{3b4}\u{3b5}\u{3c3}\u{3b7}\u{3c2}",
            "\u{39b}\u{3ae}\u{3be}\u{3b7} \u{3c3}\u{3cd}\u{3bd}\u{3b4}\u{3b5}\u{3c3}\u{3b7}\u{3c2}",
            "\u{394}\u{3b5}\u{3bd} \u{3ad}\u{3bc}\u{3b5}\u{3b9}\u{3bd}\u{3b5} \u{3ba}\u{3b1}\u{3b8}\u{3cc}\u{3bb}\u{3bf}\u{3c5} \u{3c7}\u{3ce}\u{3c1}\u{3bf}\u{3c2} \u{3c3}\u{3c4}\u{3b7} \u{3c3}\u{3c5}\u{3c3}\u{3ba}\u{3b5}\u{3c5}\u{3ae}",
            "\u{394}\u{3b5}\u{3bd} \u{3b5}\u{3af}\u{3bd}\u{3b1}\u{3b9} \u{3b4}\u{3c5}\u{3bd}\u{3b1}\u{3c4}\u{3cc} \u{3bd}\u{3b1} \u{3b4}\u{3b5}\u{3c3}\u{3bc}\u{3b5}\u{3c5}\u{3c4}\u{3b5}\u{3af} \u{3bc}\u{3bd}\u{3ae}\u{3bc}\u{3b7}",
            "\u{3a3}\u{3c6}\u{3ac}\u{3bb}\u{3bc}\u{3b1} \u{3ba}\u{3b1}\u{3c4}\u{3ac}\u{3c4}\u{3bc}\u{3b7}\u{3c3}\u{3b7}\u{3c2}",
        ],
    ),
    // Finnish
    (
        &["virhe", "Virhe"],
        &[
            "komentoa ei l\u{f6}ydy", "Tiedostoa tai hakemistoa ei ole", "Lupa ev\u{e4}tty",
            "Yhteys torjuttu", "Yhteys aikakatkaistu",
            "Laitteella ei ole tilaa j\u{e4}ljell\u{e4}", "Muistin varaaminen ei onnistu",
            "Muistialueen ylitys",
        ],
    ),
    // Danish
    (
        &["fejl", "Fejl", "overs\u{e6}tterfejl"],
        &[
            "kommando ikke fundet", "Ingen s\u{e5}dan fil eller filkatalog", "Adgang n\u{e6}gtet",
            "Opkobling n\u{e6}gtet", "Opkoblingen overskred tidsgr\u{e6}nsen",
            "Ikke mere plads p\u{e5} enheden", "Kan ikke tildele hukommelse", "Segmentfejl",
        ],
    ),
];

// A word for an error with a colon and what went wrong, or a message.
static ERROR: LazyLock<Regex> = LazyLock::new(|| {
    let (words, messages) = (alternatives(|row| row.0), alternatives(|row| row.1));
    let named = format!("(^|[\\s:\\])])({words})[ \u{a0}]?[:\u{ff1a}][ \u{a0}]?\\S");
    let built = Regex::new(&format!("{named}|(^|[\\s:\u{ff1a}])({messages})"));
    built.expect("the words are few and short")
});

fn alternatives(of: fn(&Language) -> &'static [&'static str]) -> String {
    let all: Vec<String> = LANGUAGES.iter().flat_map(of).map(|text| escape(text)).collect();
    all.join("|")
}

static FRAGMENTS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let all = LANGUAGES.iter().flat_map(|(words, messages)| words.iter().chain(*messages));
    let found = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(all);
    found.expect("the words are few and short")
});

/// Returns true if a line is an error in one of the languages. A line of ASCII never is.
pub(super) fn is_error(line: &[u8]) -> bool {
    find(line, 0).is_some() && ERROR.is_match(line)
}

/// Returns the offset of the first word or message at or after `at` in a line that is not all ASCII.
/// `bytes` must be complete lines, or one line.
pub(super) fn find(bytes: &[u8], mut at: usize) -> Option<usize> {
    while let Some(high) = bytes[at..].find_non_ascii_byte() {
        let high = at + high;
        let start = memrchr(b'\n', &bytes[at..high]).map_or(at, |newline| at + newline + 1);
        let end = memchr(b'\n', &bytes[high..]).map_or(bytes.len(), |newline| high + newline);
        if let Some(found) = FRAGMENTS.find(Input::new(bytes).span(start..end)) {
            return Some(found.start());
        }
        at = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What gcc, git, bash and other programs print in the languages of their catalogues.
    #[test]
    fn lines_of_programs_are_errors() {
        let mut missed = Vec::new();
        for (words, messages) in LANGUAGES {
            for word in *words {
                for line in [
                    format!("main.c:3:5: {word}: \u{2018}x\u{2019}"),
                    format!("{word}\u{a0}: \u{2018}x\u{2019}"),
                    format!("main.c:3: {word}\u{ff1a}\u{2018}x\u{2019}"),
                ] {
                    missed.extend((!is_error(line.as_bytes())).then_some(line));
                }
            }
            for message in *messages {
                let line = format!("bash: \u{2018}x\u{2019}: {message}");
                missed.extend((!is_error(line.as_bytes())).then_some(line));
            }
        }
        assert_eq!(missed, <[String; 0]>::default());
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            "main.c:3:5: \u{8b66}\u{544a}\u{ff1a}x",
            "0 \u{9519}\u{8bef}",
            "\u{43e}\u{448}\u{438}\u{431}\u{43a}\u{438} \u{43d}\u{435}\u{442}",
            "Fehlerbehandlung",
            "\u{e9}t\u{e9}: fine",
            "",
        ] {
            assert!(!is_error(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn a_word_is_found_in_its_line() {
        let text = "fel: ascii\n\u{e9}\nx erreur: \u{e9}\n";
        assert_eq!(find(text.as_bytes(), 0), text.find("erreur"));
        assert_eq!(find(text.as_bytes(), text.find("rreur").unwrap()), None);
    }
}
