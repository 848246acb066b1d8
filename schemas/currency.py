"""How many decimal digits a currency's minor unit has (ISO 4217), with a PSP's exceptions."""

from collections.abc import Mapping
from typing import Final

# PSP account -> currency -> exponent, where a provider departs from ISO 4217.
Exponents = Mapping[str, Mapping[str, int]]

_BY_EXPONENT: Final[Mapping[int, str]] = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    2: """
        AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD
        CAD CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP
        GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK
        LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO
        NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS
        SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST
        XAD XCD XCG YER ZAR ZMW ZWG
        """,
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}

# Withdrawn lately: payments made in them are still refunded and disputed.
_WITHDRAWN: Final = "ANG BGN CUC HRK SLL ZWL"

ISO_4217: Final[Mapping[str, int]] = {
    currency: exponent for exponent, codes in _BY_EXPONENT.items() for currency in codes.split()
} | dict.fromkeys(_WITHDRAWN.split(), 2)


def exponent_of(currency: str, *, exceptions: Mapping[str, int] | None = None) -> int | None:
    """The exponent of a currency; None if it is no currency known to ISO 4217 or `exceptions`."""
    if exceptions and currency in exceptions:
        return exceptions[currency]
    return ISO_4217.get(currency)
