"""Differences of the servers' charsets from Python's codecs. Made by tests/support/golden/make_charset_tables.py."""

from __future__ import annotations

from typing import Final

__all__ = ["MULTI_BYTE", "SAME", "SINGLE_BYTE"]

SAME: Final[dict[str, str]] = {
    "ascii": "ascii",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "hp8": "hp_roman8",
    "koi8r": "koi8_r",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "macce": "mac_latin2",
    "macroman": "mac_roman",
    "tis620": "tis_620",
}
"""Charsets of one byte of which a codec of Python knows the same characters, and no others."""

SINGLE_BYTE: Final[dict[str, str]] = {
    "armscii8": (
        "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f"
        "\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f"
        "\xa0\u2741\xa7\u0589)(\xbb\xab\u2014.\u055d,-\u055f\u2026\u055c"
        "\u055b\u055e\u0531\u0561\u0532\u0562\u0533\u0563\u0534\u0564\u0535\u0565\u0536\u0566\u0537\u0567"
        "\u0538\u0568\u0539\u0569\u053a\u056a\u053b\u056b\u053c\u056c\u053d\u056d\u053e\u056e\u053f\u056f"
        "\u0540\u0570\u0541\u0571\u0542\u0572\u0543\u0573\u0544\u0574\u0545\u0575\u0546\u0576\u0547\u0577"
        "\u0548\u0578\u0549\u0579\u054a\u057a\u054b\u057b\u054c\u057c\u054d\u057d\u054e\u057e\u054f\u057f"
        "\u0550\u0580\u0551\u0581\u0552\u0582\u0553\u0583\u0554\u0584\u0555\u0585\u0556\u0586\u2019'"
    ),
    "cp1256": (
        "\u20ac\u067e\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\ufffe\u2039\u0152\u0686\u0698\ufffe"
        "\u06af\u2018\u2019\u201c\u201d\u2022\u2013\u2014\ufffe\u2122\ufffe\u203a\u0153\u200c\u200d\ufffe"
        "\xa0\u060c\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\ufffe\xab\xac\xad\xae\xaf"
        "\xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\u061b\xbb\xbc\xbd\xbe\u061f"
        "\ufffe\u0621\u0622\u0623\u0624\u0625\u0626\u0627\u0628\u0629\u062a\u062b\u062c\u062d\u062e\u062f"
        "\u0630\u0631\u0632\u0633\u0634\u0635\u0636\xd7\u0637\u0638\u0639\u063a\u0640\u0641\u0642\u0643"
        "\xe0\u0644\xe2\u0645\u0646\u0647\u0648\xe7\xe8\xe9\xea\xeb\u0649\u064a\xee\xef"
        "\u064b\u064c\u064d\u064e\xf4\u064f\u0650\xf7\u0651\xf9\u0652\xfb\xfc\u200e\u200f\ufffe"
    ),
    "cp866": (
        "\u0410\u0411\u0412\u0413\u0414\u0415\u0416\u0417\u0418\u0419\u041a\u041b\u041c\u041d\u041e\u041f"
        "\u0420\u0421\u0422\u0423\u0424\u0425\u0426\u0427\u0428\u0429\u042a\u042b\u042c\u042d\u042e\u042f"
        "\u0430\u0431\u0432\u0433\u0434\u0435\u0436\u0437\u0438\u0439\u043a\u043b\u043c\u043d\u043e\u043f"
        "\u2591\u2592\u2593\u2502\u2524\u2561\u2562\u2556\u2555\u2563\u2551\u2557\u255d\u255c\u255b\u2510"
        "\u2514\u2534\u252c\u251c\u2500\u253c\u255e\u255f\u255a\u2554\u2569\u2566\u2560\u2550\u256c\u2567"
        "\u2568\u2564\u2565\u2559\u2558\u2552\u2553\u256b\u256a\u2518\u250c\u2588\u2584\u258c\u2590\u2580"
        "\u0440\u0441\u0442\u0443\u0444\u0445\u0446\u0447\u0448\u0449\u044a\u044b\u044c\u044d\u044e\u044f"
        "\u0401\u0451\u0404\u0454\u0407\u0457\u040e\u045e\xb0\u2219\xb7\u221a\u207f\xb2\u25a0\xa0"
    ),
    "dec8": (
        "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f"
        "\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f"
        "\xa0\xa1\xa2\xa3\ufffe\xa5\ufffe\xa7\xa4\xa9\xaa\xab\ufffe\ufffe\ufffe\ufffe"
        "\xb0\xb1\xb2\xb3\ufffe\xb5\xb6\xb7\ufffe\xb9\xba\xbb\xbc\xbd\ufffe\xbf"
        "\xc0\xc1\xc2\xc3\xc4\xc5\xc6\xc7\xc8\xc9\xca\xcb\xcc\xcd\xce\xcf"
        "\ufffe\xd1\xd2\xd3\xd4\xd5\xd6\u0152\xd8\xd9\xda\xdb\xdc\u0178\ufffe\xdf"
        "\xe0\xe1\xe2\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xea\xeb\xec\xed\xee\xef"
        "\ufffe\xf1\xf2\xf3\xf4\xf5\xf6\u0153\xf8\xf9\xfa\xfb\xfc\xff\ufffe\ufffe"
    ),
    "geostd8": (
        "\u20ac\ufffe\u201a\ufffe\u201e\u2026\u2020\u2021\ufffe\u2030\ufffe\u2039\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\u2018\u2019\u201c\u201d\u2022\u2013\u2014\ufffe\ufffe\ufffe\u203a\ufffe\ufffe\ufffe\ufffe"
        "\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf"
        "\xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xbb\xbc\xbd\xbe\xbf"
        "\u10d0\u10d1\u10d2\u10d3\u10d4\u10d5\u10d6\u10f1\u10d7\u10d8\u10d9\u10da\u10db\u10dc\u10f2\u10dd"
        "\u10de\u10df\u10e0\u10e1\u10e2\u10f3\u10e3\u10e4\u10e5\u10e6\u10e7\u10e8\u10e9\u10ea\u10eb\u10ec"
        "\u10ed\u10ee\u10f4\u10ef\u10f0\u10f5\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\u2116\ufffe\ufffe"
    ),
    "greek": (
        "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f"
        "\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f"
        "\xa0\u02bd\u02bc\xa3\ufffe\ufffe\xa6\xa7\xa8\xa9\ufffe\xab\xac\xad\ufffe\u2015"
        "\xb0\xb1\xb2\xb3\u0384\u0385\u0386\xb7\u0388\u0389\u038a\xbb\u038c\xbd\u038e\u038f"
        "\u0390\u0391\u0392\u0393\u0394\u0395\u0396\u0397\u0398\u0399\u039a\u039b\u039c\u039d\u039e\u039f"
        "\u03a0\u03a1\ufffe\u03a3\u03a4\u03a5\u03a6\u03a7\u03a8\u03a9\u03aa\u03ab\u03ac\u03ad\u03ae\u03af"
        "\u03b0\u03b1\u03b2\u03b3\u03b4\u03b5\u03b6\u03b7\u03b8\u03b9\u03ba\u03bb\u03bc\u03bd\u03be\u03bf"
        "\u03c0\u03c1\u03c2\u03c3\u03c4\u03c5\u03c6\u03c7\u03c8\u03c9\u03ca\u03cb\u03cc\u03cd\u03ce\ufffe"
    ),
    "hebrew": (
        "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f"
        "\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f"
        "\xa0\ufffe\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xd7\xab\xac\xad\xae\u203e"
        "\xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xf7\xbb\xbc\xbd\xbe\ufffe"
        "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\u2017"
        "\u05d0\u05d1\u05d2\u05d3\u05d4\u05d5\u05d6\u05d7\u05d8\u05d9\u05da\u05db\u05dc\u05dd\u05de\u05df"
        "\u05e0\u05e1\u05e2\u05e3\u05e4\u05e5\u05e6\u05e7\u05e8\u05e9\u05ea\ufffe\ufffe\u200e\u200f\ufffe"
    ),
    "keybcs2": (
        "\u010c\xfc\xe9\u010f\xe4\u010e\u0164\u010d\u011b\u011a\u0139\xcd\u013e\u013a\xc4\xc1"
        "\xc9\u017e\u017d\xf4\xf6\xd3\u016f\xda\xfd\xd6\xdc\u0160\u013d\xdd\u0158\u0165"
        "\xe1\xed\xf3\xfa\u0148\u0147\u016e\xd4\u0161\u0159\u0155\u0154\xbc\xa1\xab\xbb"
        "\u2591\u2592\u2593\u2502\u2524\u2561\u2562\u2556\u2555\u2563\u2551\u2557\u255d\u255c\u255b\u2510"
        "\u2514\u2534\u252c\u251c\u2500\u253c\u255e\u255f\u255a\u2554\u2569\u2566\u2560\u2550\u256c\u2567"
        "\u2568\u2564\u2565\u2559\u2558\u2552\u2553\u256b\u256a\u2518\u250c\u2588\u2584\u258c\u2590\u2580"
        "\u03b1\xdf\u0393\u03c0\u03a3\u03c3\xb5\u03c4\u03a6\u0398\u03a9\u03b4\u221e\u03c6\u03b5\u2229"
        "\u2261\xb1\u2265\u2264\u2320\u2321\xf7\u2248\xb0\u2219\xb7\u221a\u207f\xb2\u25a0\xa0"
    ),
    "koi8u": (
        "\u2500\u2502\u250c\u2510\u2514\u2518\u251c\u2524\u252c\u2534\u253c\u2580\u2584\u2588\u258c\u2590"
        "\u2591\u2592\u2593\u2320\u25a0\u2022\u221a\u2248\u2264\u2265\xa0\u2321\xb0\xb2\xb7\xf7"
        "\u2550\u2551\u2552\u0451\u0454\u2554\u0456\u0457\u2557\u2558\u2559\u255a\u255b\u0491\u255d\u255e"
        "\u255f\u2560\u2561\u0401\u0404\u2563\u0406\u0407\u2566\u2567\u2568\u2569\u256a\u0490\u256c\xa9"
        "\u044e\u0430\u0431\u0446\u0434\u0435\u0444\u0433\u0445\u0438\u0439\u043a\u043b\u043c\u043d\u043e"
        "\u043f\u044f\u0440\u0441\u0442\u0443\u0436\u0432\u044c\u044b\u0437\u0448\u044d\u0449\u0447\u044a"
        "\u042e\u0410\u0411\u0426\u0414\u0415\u0424\u0413\u0425\u0418\u0419\u041a\u041b\u041c\u041d\u041e"
        "\u041f\u042f\u0420\u0421\u0422\u0423\u0416\u0412\u042c\u042b\u0417\u0428\u042d\u0429\u0427\u042a"
    ),
    "latin1": (
        "\u20ac\x81\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\x8d\u017d\x8f"
        "\x90\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\x9d\u017e\u0178"
        "\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf"
        "\xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xbb\xbc\xbd\xbe\xbf"
        "\xc0\xc1\xc2\xc3\xc4\xc5\xc6\xc7\xc8\xc9\xca\xcb\xcc\xcd\xce\xcf"
        "\xd0\xd1\xd2\xd3\xd4\xd5\xd6\xd7\xd8\xd9\xda\xdb\xdc\xdd\xde\xdf"
        "\xe0\xe1\xe2\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xea\xeb\xec\xed\xee\xef"
        "\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff"
    ),
    "swe7": (
        "\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f"
        "\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"
        " !\"#$%&'()*+,-./"
        "0123456789:;<=>?"
        "\xc9ABCDEFGHIJKLMNO"
        "PQRSTUVWXYZ\xc4\xd6\xc5\xdc_"
        "\xe9abcdefghijklmno"
        "pqrstuvwxyz\xe4\xf6\xe5\xfc\ufffe"
        "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe"
    ),
}
"""Charset → its characters from 0x00 on where those below 0x80 are not ASCII, else from 0x80; U+FFFE: none."""

MULTI_BYTE: Final[dict[str, tuple[str, str]]] = {
    "big5": (
        "big5",
        """\
a15a - 1
a1c3 - 1
a1c5 - 1
a1fe - 1
a240 - 1
a2cc - 1
a2ce - 1
f9d6 碁銹裏墻恒粧嫺
""",
    ),
    "cp932": (
        "cp932",
        """\
80 - 1
a0 - 1
fd - 3
""",
    ),
    "eucjpms": (
        "euc_jp",
        """\
8fa2b7 +ff5e 1
8fa2c3 +ffe4 1
8ff3f3 ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡ
8ff4a1 ⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤﨎咊坙﨏塚增寬峵嵓﨑德悅愠敎昻晥晴朗栁﨓﨔
8ff4c9 橫櫢淸淲瀨凞猪甁皂皞益礰礼神祥福竧靖精綠緖羽荢﨟薰蘒﨡蠇諸譿賴赶﨣﨤逸郞都鄕﨧﨨
8ff4f1 閒隆﨩霻靍靑飯飼館馞髙魲鶴黑
8ff5a1 +e3ac 94
8ff6a1 +e40a 94
8ff7a1 +e468 94
8ff8a1 +e4c6 94
8ff9a1 +e524 94
8ffaa1 +e582 94
8ffba1 +e5e0 94
8ffca1 +e63e 94
8ffda1 +e69c 94
8ffea1 +e6fa 94
a1c1 ～∥
a1dd +ff0d 1
a1f1 +ffe0 2
a2cc +ffe2 1
ada1 ①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ
adc0 ㍉㌔㌢㍍㌘㌧㌃㌶㍑㍗㌍㌦㌣㌫㍊㌻㎜㎝㎞㎎㎏㏄㎡
addf ㍻〝〟№㏍℡㊤㊥㊦㊧㊨㈱㈲㈹㍾㍽㍼≒≡∫∮∑√⊥∠∟⊿∵∩∪
f5a1 +e000 94
f6a1 +e05e 94
f7a1 +e0bc 94
f8a1 +e11a 94
f9a1 +e178 94
faa1 +e1d6 94
fba1 +e234 94
fca1 +e292 94
fda1 +e2f0 94
fea1 +e34e 94
""",
    ),
    "euckr": ("cp949", ""),
    "gb18030": (
        "gb18030",
        """\
8135f437 +e7c7 1
a8bc +1e3f 1
""",
    ),
    "gb2312": ("gb2312", ""),
    "gbk": ("gbk", ""),
    "sjis": (
        "shift_jis",
        """\
815f +5c 1
""",
    ),
    "ujis": (
        "euc_jp",
        """\
8ff5a1 +e3ac 94
8ff6a1 +e40a 94
8ff7a1 +e468 94
8ff8a1 +e4c6 94
8ff9a1 +e524 94
8ffaa1 +e582 94
8ffba1 +e5e0 94
8ffca1 +e63e 94
8ffda1 +e69c 94
8ffea1 +e6fa 94
a1c0 +5c 1
f5a1 +e000 94
f6a1 +e05e 94
f7a1 +e0bc 94
f8a1 +e11a 94
f9a1 +e178 94
faa1 +e1d6 94
fba1 +e234 94
fca1 +e292 94
fda1 +e2f0 94
fea1 +e34e 94
""",
    ),
}
"""Charset → (Python's codec, what differs), a line for sequences that follow each other by their last byte:
`first-bytes characters`, `first-bytes +code-point count` where code points do too, `first-bytes - count` for none.
"""
